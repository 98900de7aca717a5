"""`grn`: the group of all verbs. A verb is imported when it is used."""

import json
import sys
from difflib import get_close_matches
from importlib import import_module
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

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
    "lease": "Run a command that has whole devices to itself.",
    "create-queue": "Make a queue with declared resources.",
    "enqueue": "Queue a command as a job of a queue, and leave.",
    "delete-queue": "Delete a queue: what waits is cancelled, what runs runs on.",
    "ps": "List jobs.",
    "show": "Show queues with their jobs, or tell all about one job.",
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
    "environments": "List the named environments that jobs can run in.",
    "who": "Say which job a process belongs to.",
    "profiles": "List, show, set, export or forget what was learned of job types.",
    "config": "Show settings and where each comes from.",
    "service": "Start with your login, as a systemd user service.",
    "doctor": "Look for what is wrong here, and say how to mend it.",
    "completion": "Print completion for bash, zsh or fish.",
    "demo": "See jobs measured and then packed, in a minute and without a GPU.",
    "bench": "Measure how fast this installation is, in less than a minute.",
    "simulate": "Compare scheduling policies on simulated GPUs.",
}


# What other tools call the same.
ALIASES: Final = {
    "add": "submit",
    "follow": "logs",
    "kill": "cancel",
    "list": "ps",
    "log": "logs",
    "queue": "ps",
    "restart": "retry",
}


# Their --json is what a queue has or a job needs, as in Grass; machines ask by --output json.
JSON_IS_A_VALUE: Final = frozenset({"create-queue", "enqueue"})


class Verbs(click.Group):
    """Knows its verbs by name; loads one when it is called."""

    def main(self, *args: Any, **extra: Any) -> Any:
        """Run; a wrong command line is told as JSON, too, to whoever wants JSON."""
        words = list(extra.get("args") or (args[0] if args else None) or sys.argv[1:])
        if not _wants_json(words) or not extra.get("standalone_mode", True):
            return super().main(*args, **extra)
        try:
            return super().main(*args, **{**extra, "standalone_mode": False})
        except click.UsageError as error:
            click.echo(json.dumps({"error": error.format_message()}))
            error.show()
            sys.exit(error.exit_code)
        except click.Abort:
            sys.exit(1)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find a verb, also by another tool's word for it; or suggest what may be meant."""
        if args and args[0] not in VERBS:
            if args[0] in ALIASES:
                return super().resolve_command(ctx, [ALIASES[args[0]], *args[1:]])
            close = get_close_matches(args[0], [*VERBS, *ALIASES], n=1)
            if close:
                meant = ALIASES.get(close[0], close[0])
                ctx.fail(f"No such command {args[0]!r}. Did you mean `grn {meant}`?")
        return super().resolve_command(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in VERBS:
            return None
        module = import_module(f".{name.replace('-', '_')}", __package__)
        command: click.Command = getattr(module, name.replace("-", "_"))
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


def _wants_json(words: list[str]) -> bool:
    ours = words[: words.index("--")] if "--" in words else words
    named = [word for before, word in pairwise(("", *ours)) if before != "--name"]
    verb = next((word for word in named if not word.startswith("-")), "")
    if verb not in JSON_IS_A_VALUE:
        return "--json" in ours
    return "--output=json" in ours or ("--output", "json") in pairwise(ours)


def _mean(name: str) -> None:
    """Let all that follows mean the broker of this name."""
    from ..config import BadSetting
    from ..paths import use_name

    try:
        use_name(name)
    except BadSetting as error:
        raise click.UsageError(str(error)) from None


@click.group(
    cls=Verbs,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.option("--json", "as_json", is_flag=True, help="Without a command: print facts as JSON.")
@click.option("--name", metavar="NAME", help="Of the broker, if it has one. Also: GRN_NAME.")
@click.version_option(__version__, prog_name="grn")
@click.pass_context
def grn(ctx: click.Context, /, as_json: bool, name: str | None) -> None:
    """Run many GPU jobs on one machine without thinking about it.

    \b
    grn                                 devices, live jobs and strangers at a glance
    grn start --detach                  broker and workers in the background
    grn run "python a.py" "python b.py" two commands as jobs, sharing devices
    grn ps                              what runs, where, and what waits for what
    """
    if name is not None:
        _mean(name)
    if ctx.invoked_subcommand is None:
        from .overview import overview

        overview(as_json=as_json)
    elif as_json:
        verb = ctx.invoked_subcommand
        raise click.UsageError(f"--json belongs behind the command: grn {verb} --json")


if __name__ == "__main__":
    grn(prog_name="grn")
