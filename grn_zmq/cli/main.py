"""`grn`: the group of all verbs. A verb is imported when it is used."""

from importlib import import_module
from typing import Any, Final

import click

from .. import __version__

# Verb, and one line of help: known without importing the verb itself.
VERBS: Final = {
    "start": "Start broker and workers, in the foreground or --detach.",
    "stop": "Stop broker, workers and running jobs, or --drain them first.",
    "status": "Say whether a broker runs, and what it has to do.",
    "run": "Run commands as jobs and wait for them.",
    "ps": "List jobs.",
    "devices": "List devices and their memory.",
    "profiles": "List what was learned of job types, or forget it.",
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

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(VERBS.items()))


@click.group(cls=Verbs, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="grn")
def grn(**_: Any) -> None:
    """Run many GPU jobs on one machine without thinking about it.

    \b
    grn start --detach                  broker and workers in the background
    grn run "python a.py" "python b.py" two commands as jobs, sharing devices
    grn ps                              what runs, where, and what waits for what
    """


if __name__ == "__main__":
    grn(prog_name="grn")
