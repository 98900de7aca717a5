"""`grn service`: broker and workers as a service of the user's systemd."""

import difflib
import os
import sys
from dataclasses import asdict
from pathlib import Path

import click

from ..errors import BrokerRunning
from ..starting import occupant
from .common import UNREACHABLE, flush, json_option, one_line_errors, print_json, say
from .hosting.systemctl import ServiceError, Systemctl, is_lingering
from .hosting.unitfile import carried, unit_name, unit_path, unit_text


@click.group()
def service() -> None:
    """Start broker and workers with your login, as a systemd user service.

    \b
    grn service install      write the unit, enable it and start it
    grn service status       is it installed, does it run?
    grn service uninstall    stop it and remove the unit
    """


@service.command()
@click.option("--print", "only_print", is_flag=True, help="Print the unit, do nothing else.")
@click.option("--force", is_flag=True, help="Replace a unit that is different.")
@one_line_errors
def install(only_print: bool, force: bool) -> None:
    """Write the unit for this installation, enable it and start it.

    \b
    grn service install              runs now, and from every login on
    grn service install --print      see what would be written
    grn service install --force      replace a unit that is there, after an upgrade, say

    It has the GRN_* variables, directories and CUDA_VISIBLE_DEVICES that are set here.
    """
    variables = carried(os.environ, Path.home(), os.getuid())
    text = unit_text(sys.executable, variables)
    if only_print:
        click.echo(text, nl=False)
        flush()
        return
    path = unit_path(os.environ, Path.home())
    _refuse_other(path, text, force)
    name = unit_name(os.environ)
    systemctl = Systemctl(f"{name}.service")
    state = systemctl.state()
    if (pid := occupant()) and not state.pid:
        raise BrokerRunning(pid)
    _write(path, text)
    say(f"Wrote {path}" + (f", with {', '.join(variables)} as set here" if variables else ""))
    _enable(systemctl, path)
    if state.pid:
        say(f"It runs as before; to use the new unit: systemctl --user restart {name}")
    else:
        say(f"It runs, and will from every login on; its log: journalctl --user -u {name}")
    if not is_lingering(os.getuid()):
        say("To start it at boot and keep it after a logout: loginctl enable-linger")


@service.command()
@one_line_errors
def uninstall() -> None:
    """Stop the service, which ends running jobs, and remove its unit.

    \b
    grn stop --drain && grn service uninstall     let running jobs end first
    grn service uninstall                         at once
    grn service uninstall && grn start --detach   go on by hand: queued jobs are kept
    """
    path = unit_path(os.environ, Path.home())
    if not path.exists():
        raise ServiceError(f"nothing to uninstall: there is no {path}")
    systemctl = Systemctl(path.name)
    if systemctl.missing:
        path.unlink()
        say(f"Removed {path}; systemctl is not here, so nothing was stopped")
        return
    try:
        systemctl.do("disable", "--now", path.name)
    except ServiceError as error:
        raise ServiceError(f"{error}. To remove the unit all the same: rm {path}") from None
    path.unlink()
    systemctl.do("daemon-reload")
    say(f"Stopped the service and removed {path}")


@service.command()
@json_option
@one_line_errors
def status(as_json: bool) -> None:
    """Say whether the service is installed and runs; status 3 if it does not run.

    \b
    grn service status                  in words
    grn service status --json           the same for machines
    journalctl --user -u grn -f         what it logs
    """
    path = unit_path(os.environ, Path.home())
    state = Systemctl(path.name).state()
    facts = {
        "path": str(path),
        "installed": path.exists(),
        **asdict(state),
        "lingering": is_lingering(os.getuid()),
    }
    if as_json:
        print_json(facts)
    elif not path.exists():
        say(f"Not installed: there is no {path}; `grn service install` writes it")
    else:
        pid = f", pid {state.pid}" if state.pid else ""
        enabled, active = state.enabled or "unknown", state.active or "unknown"
        say(f"{path}: {enabled}, {active}{pid}")
        say("Runs without a login" if facts["lingering"] else "Runs while you are logged in")
    sys.exit(0 if state.active == "active" else UNREACHABLE)


def _refuse_other(path: Path, text: str, force: bool) -> None:
    """Show how a unit that is there differs, and leave it alone."""
    try:
        there = path.read_text(errors="replace")
    except OSError:
        return
    if there == text or force:
        return
    lines = difflib.unified_diff(
        there.splitlines(), text.splitlines(), str(path), "new", lineterm="", n=0
    )
    for line in lines:
        say(line)
    raise ServiceError(f"{path} is different; `grn service install --force` replaces it")


def _write(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_suffix(".draft")
        draft.write_text(text)
        draft.replace(path)
    except OSError as error:
        raise ServiceError(f"cannot write {path}: {error.strerror}") from None


def _enable(systemctl: Systemctl, path: Path) -> None:
    orders = (("daemon-reload",), ("enable", "--now", path.name))
    by_hand = " and ".join(f"`systemctl --user {' '.join(order)}`" for order in orders)
    if systemctl.missing:
        raise ServiceError(f"systemctl is not here, so nothing was started: run {by_hand}")
    try:
        for order in orders:
            systemctl.do(*order)
    except ServiceError as error:
        raise ServiceError(
            f"{error}. `journalctl --user -u {path.stem}` may say why; the unit is in {path}, "
            f"try again with {by_hand}"
        ) from None
