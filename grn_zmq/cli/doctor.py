"""`grn doctor`: what is wrong here, and how to mend it."""

import os
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import asdict
from typing import Final

import click

from ..paths import find_places, state_directory
from .checks.finding import OK, PROBLEM, WARNING, Finding, all_processes, checked
from .common import counted, flush, json_option, one_line_errors, print_json, printable

_COLOURS: Final = {OK: "green", WARNING: "yellow", PROBLEM: "red"}


@click.command()
@json_option
@one_line_errors
def doctor(as_json: bool) -> None:
    """Look for what is wrong here and say how to mend it; status 1 if there is a problem.

    \b
    grn doctor                    a line for each finding, with what to do
    grn doctor --json             the same for machines
    grn doctor | grep -A1 problem

    It needs neither a broker nor a GPU, and changes nothing.
    """
    findings = examine()
    levels = Counter(one.level for one in findings)
    if as_json:
        print_json(
            {
                "findings": [asdict(one) for one in findings],
                "problems": levels[PROBLEM],
                "warnings": levels[WARNING],
            }
        )
    else:
        show(findings)
        problems = counted(levels[PROBLEM], "problem")
        click.echo(f"{problems}, {counted(levels[WARNING], 'warning')}")
    flush()
    sys.exit(1 if levels[PROBLEM] else 0)


def examine() -> list[Finding]:
    """Make all checks; the driver is asked by another process meanwhile."""
    from .checks import devices

    with closing(devices.Look()) as look:
        findings = [checked(name, check) for name, check in _at_once().items()]
        facts = look.facts()
    machine_bytes = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    of_devices: dict[str, Callable[[], Finding]] = {
        "gpus": lambda: devices.check_gpus(facts, devices.count_cards()),
        "mig": lambda: devices.check_mig(facts),
        "pids": lambda: devices.check_pids(facts, os.readlink("/proc/self/ns/pid")),
        "memory": lambda: devices.check_memory(facts, machine_bytes),
        "fork": lambda: devices.check_fork(facts),
    }
    return [*(checked(name, check) for name, check in of_devices.items()), *findings]


def _at_once() -> dict[str, Callable[[], Finding]]:
    """The checks that need not wait for the driver."""
    from .checks import broker as brokers
    from .checks import devices, system
    from .checks import places as directories

    environ, processes = os.environ, all_processes()
    places = find_places(environ)
    return {
        "mps": lambda: devices.check_mps(environ, processes),
        "preallocation": lambda: devices.check_preallocation(environ),
        "settings": lambda: directories.check_settings(environ),
        "runtime directory": lambda: directories.check_runtime(environ, places),
        "state directory": lambda: directories.check_state(state_directory(environ)),
        "shared memory": directories.check_shared_memory,
        "logout": lambda: directories.check_logout(environ, os.getuid()),
        "open files": system.check_open_files,
        "kernel": system.check_kernel,
        "processes": system.check_proc,
        "versions": system.check_versions,
        "broker": lambda: brokers.check_broker(places),
        "other brokers": lambda: brokers.check_others(places, processes, devices.count_cards()),
    }


def show(findings: Sequence[Finding]) -> None:
    """Print two lines for each that is not good, and one for each that is."""
    plain = False if os.environ.get("NO_COLOR") else None  # None: colours on terminals only
    width = max(len(one.name) for one in findings)
    for one in findings:
        level = click.style(one.level.ljust(len(WARNING)), fg=_COLOURS[one.level])
        click.echo(f"{level}  {one.name.ljust(width)}  {printable(one.text)}", color=plain)
        if one.fix:
            indent = " " * (len(WARNING) + width + 4)
            click.echo(f"{indent}→ {printable(one.fix)}", color=plain)
