"""`grn config`: the settings, and where each comes from."""

import os

import click

from ..config import config_file, read_config
from ..config_keys import KEYS
from .common import flush, json_option, one_line_errors, print_json, print_table

HEADERS = ("NAME", "VALUE", "FROM")


@click.command()
@click.argument("what", type=click.Choice(["show", "path"]), default="show", metavar="[path]")
@json_option
@one_line_errors
def config(what: str, as_json: bool) -> None:
    """Show settings and where each comes from, or the path of their file.

    \b
    grn config                    all of them, and who has set them
    grn config --json             the same for machines
    nano "$(grn config path)"     change them, such as: overflow = 0.01

    A flag counts before a variable (GRN_MAX_JOBS, GRN_JOB__GRACE), a variable before the
    file, the file before the default. A broker that runs keeps what it was started with.
    """
    path = config_file(os.environ)
    if what == "path":
        print_json({"path": str(path)}) if as_json else click.echo(str(path))
        flush()
        return
    found = read_config(os.environ)
    if not as_json:
        rows = [(key.name, found.shown(key), found.source(key.name)) for key in KEYS]
        print_table(HEADERS, rows)
        return
    settings = {
        key.name: {
            "value": found.value(key.name),
            "source": found.source(key.name),
            "variable": key.variable,
        }
        for key in KEYS
    }
    print_json({"path": str(path), "exists": path.exists(), "settings": settings})
