"""`grn`: the group of all verbs. A verb is imported when it is used."""

from importlib import import_module
from typing import TYPE_CHECKING, Final

import click

from .. import __version__

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

# Verb, and one line of help: known without importing the verb itself.
VERBS: Final = {
    "start": "Start broker and workers, in the foreground or --detach.",
    "stop": "Stop broker, workers and running jobs, or --drain them first.",
    "status": "Say whether a broker runs, and what it has to do.",
    "run": "Run commands as jobs and wait for them.",
    "submit": "Queue commands as jobs and leave.",
    "ps": "List jobs.",
    "show": "Tell all about one job.",
    "logs": "Print what a job printed, or follow it.",
    "why": "Say what a waiting job waits for.",
    "wait": "Wait for jobs, and leave with their status.",
    "cancel": "End jobs, waiting or running.",
    "retry": "Submit ended jobs again.",
    "hold": "Keep waiting jobs from starting.",
    "release": "Let held jobs start again.",
    "priority": "Give waiting jobs another priority.",
    "pause": "Start no more jobs; what runs runs on.",
    "resume": "Start jobs again.",
    "clean": "Forget ended jobs, their values and their output.",
    "top": "Watch devices and jobs live.",
    "devices": "List devices, their memory and their processes.",
    "who": "Say which job a process belongs to.",
    "profiles": "List, show, set, export or forget what was learned of job types.",
    "config": "Show settings and where each comes from.",
    "service": "Start with your login, as a systemd user service.",
    "doctor": "Look for what is wrong here, and say how to mend it.",
    "completion": "Print completion for bash, zsh or fish.",
    "demo": "See jobs measured and then packed, in a minute and without a GPU.",
    "simulate": "Compare scheduling policies on simulated GPUs.",
}


class Verbs(click.Group):
    """Knows its verbs by name; loads one when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in VERBS:
            return None
        module = import_module(f".{name}", __package__)
        command: click.Command = getattr(module, name)
        return command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> "list[CompletionItem]":
        """Offer verbs with their help, without importing any of them."""
        from click.shell_completion import CompletionItem

        verbs = [
            CompletionItem(name, help=text)
            for name, text in VERBS.items()
            if name.startswith(incomplete)
        ]
        return [*verbs, *click.Command.shell_complete(self, ctx, incomplete)]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(VERBS.items()))


@click.group(
    cls=Verbs,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.option("--json", "as_json", is_flag=True, help="Without a command: print facts as JSON.")
@click.version_option(__version__, prog_name="grn")
@click.pass_context
def grn(ctx: click.Context, /, as_json: bool) -> None:
    """Run many GPU jobs on one machine without thinking about it.

    \b
    grn                                 devices, live jobs and strangers at a glance
    grn start --detach                  broker and workers in the background
    grn run "python a.py" "python b.py" two commands as jobs, sharing devices
    grn ps                              what runs, where, and what waits for what
    """
    if ctx.invoked_subcommand is None:
        from .overview import overview

        overview(as_json=as_json)
    elif as_json:
        verb = ctx.invoked_subcommand
        raise click.UsageError(f"--json belongs behind the command: grn {verb} --json")


if __name__ == "__main__":
    grn(prog_name="grn")
