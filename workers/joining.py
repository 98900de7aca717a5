"""`grn-workers --broker WHERE`: the variables under which that broker is found. Pure."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from grn_zmq.config import BadSetting
from grn_zmq.paths import NAME_VARIABLE, checked_name

_FORMS: Final = (
    "write the directory of a broker (`grn status` names it), or ipc:// and its socket"
)
_SOCKETS: Final = ("workers/broker.sock", "clients/broker.sock")
_FOLDER: Final = re.compile(r"grn(?:-(.+))?", re.DOTALL)
# Where a broker is that has no runtime directory: in this one, inside its state directory.
_REFUGE: Final = "run"


def variables_for(where: str, cwd: Path) -> Mapping[str, str]:
    """Give what the environment must say so that the broker meant is found, now and later.

    Args:
        where: Its directory, or the ipc address of one of its sockets.
        cwd: Where a relative directory begins.

    Raises:
        BadSetting: No broker can be there.
    """
    directory = cwd / _directory(where)
    refuge = directory.name == _REFUGE
    folder = directory.parent if refuge else directory
    match = _FOLDER.fullmatch(folder.name)
    if match is None:
        raise BadSetting(
            f"--broker {where} cannot be: the directory of a broker is called grn or grn-NAME, "
            f"not {folder.name}. Where it is mounted, keep its name"
        )
    name = checked_name(match[1] or "", f"--broker {where}")
    home = "XDG_STATE_HOME" if refuge else "XDG_RUNTIME_DIR"
    runtime = {"XDG_RUNTIME_DIR": ""} if refuge else {}
    return {NAME_VARIABLE: name, **runtime, home: str(folder.parent)}


def _directory(where: str) -> str:
    scheme, found, path = where.partition("://")
    if not found:
        return where
    if scheme != "ipc":
        raise BadSetting(
            f"--broker {where} cannot be: a broker listens on files of its own machine. "
            f"Addresses of others will come with keys; until then {_FORMS}"
        )
    for socket in _SOCKETS:
        if path.endswith(f"/{socket}"):
            return path.removesuffix(f"/{socket}")
    raise BadSetting(f"--broker {where} cannot be: no broker has a socket there; {_FORMS}")
