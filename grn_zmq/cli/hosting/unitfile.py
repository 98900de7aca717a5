"""The systemd user unit that runs `grn start`. Pure: values in, text out."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from ...config_keys import KEYS
from ...paths import NAME_VARIABLE, broker_folder

# How long `grn start` gives workers to find their devices, the broker to be ready and all
# workers to join: a minute each, see `supervisor.READY_S`.
START_S: Final = 200
# Longer than it takes to end jobs, workers and broker in order, or to give that up.
STOP_S: Final = 45

# What broker and workers look at beside settings: where things are, and which GPUs to use.
_PLACES: Final = (
    "XDG_RUNTIME_DIR",
    "XDG_STATE_HOME",
    "XDG_CONFIG_HOME",
    "GRN_CONFIG",
    NAME_VARIABLE,
)
_DRIVER: Final = ("CUDA_VISIBLE_DEVICES", "LD_LIBRARY_PATH")

_UNIT: Final = """\
# Written by `grn service install`. Settings are better changed in the file that
# `grn config path` names: this one is refused or replaced by the next install.

[Unit]
Description=grn: jobs share the devices of this machine
StartLimitIntervalSec=300
StartLimitBurst=10

[Service]
Type=notify
ExecStart={command}
WorkingDirectory=/
{environment}Restart=on-failure
RestartSec=5
# A setting that cannot be stays one.
RestartPreventExitStatus=2
# Only `grn start` is told to end: it ends jobs, workers and broker in this order.
KillMode=mixed
TimeoutStartSec={start_s}
TimeoutStopSec={stop_s}
# A job that the kernel kills for lack of memory must not end all others.
OOMPolicy=continue
TasksMax=infinity

[Install]
WantedBy=default.target
"""


def unit_name(environ: Mapping[str, str]) -> str:
    """Give what systemd calls the service: `grn`, or for a named broker `grn-NAME`."""
    return broker_folder(environ)


def unit_path(environ: Mapping[str, str], home: Path) -> Path:
    """Say where the user's systemd looks for it."""
    config = environ.get("XDG_CONFIG_HOME") or home / ".config"
    return Path(config) / "systemd" / "user" / f"{unit_name(environ)}.service"


def unit_text(python: str, variables: Mapping[str, str]) -> str:
    """Write the unit.

    Args:
        python: The interpreter of the installation that shall be started, as a full path.
        variables: What the service has in its environment beside what every login has.
    """
    lines = [f"Environment={_quoted(f'{k}={v}')}\n" for k, v in variables.items()]
    command = f"{_quoted(python)} -m grn_zmq.cli.main start"
    return _UNIT.format(
        command=command, environment="".join(lines), start_s=START_S, stop_s=STOP_S
    )


def carried(environ: Mapping[str, str], home: Path, uid: int) -> dict[str, str]:
    """Pick the variables a service needs to be what `grn start` would be here.

    What systemd sets for every service of the user anyway is left out.
    """
    usual = {
        "XDG_RUNTIME_DIR": f"/run/user/{uid}",
        "XDG_STATE_HOME": str(home / ".local/state"),
        "XDG_CONFIG_HOME": str(home / ".config"),
    }
    settings = [key.variable for key in KEYS if "." not in key.name]
    return {
        name: environ[name]
        for name in (*_PLACES, *settings, *_DRIVER)
        if environ.get(name) and environ[name] != usual.get(name)
    }


def _quoted(word: str) -> str:
    """Write a word so that systemd reads it as it is: percent signs would be replaced."""
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped.replace("%", "%%")}"'
