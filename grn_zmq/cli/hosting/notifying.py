"""Tells a service manager, such as systemd, how far a start has come."""

import contextlib
import socket
from collections.abc import MutableMapping


class ServiceManager:
    """Whoever started us as a service of `Type=notify`; nobody, most of the time."""

    def __init__(self, environ: MutableMapping[str, str]) -> None:
        # Taken out of the environment: our children are not the service.
        self._address = environ.pop("NOTIFY_SOCKET", "")

    def tell(self, state: str) -> None:
        """Send one line such as `READY=1`; where nobody listens, nothing happens."""
        if not self._address:
            return
        # Linux names sockets without a file by a zero byte, variables by an @.
        address = "\0" + self._address[1:] if self._address[0] == "@" else self._address
        with contextlib.suppress(OSError):
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
                sender.sendto(state.encode(), address)
