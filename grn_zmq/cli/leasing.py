"""Gets the devices of a command, waits for its end, and lets go of them."""

import os
import signal
import sys
from collections.abc import Callable
from concurrent.futures import CancelledError
from typing import Final

from ..errors import WaitTimeout
from ..leased import Held, Teller
from ..leasing import Wanted, obtain, title_of
from ..naming import printable
from ..units import parse_seconds
from .common import INTERRUPTED, fail, say
from .states import BY_SIGNAL, TIMED_OUT
from .tenants import Tenant

# A terminal sends these to all who are in its foreground, so the command has them already.
FROM_TERMINAL: Final = (signal.SIGINT, signal.SIGQUIT)
ENDING: Final = (signal.SIGTERM, signal.SIGHUP)
PASSED_ON: Final = (*FROM_TERMINAL, *ENDING, signal.SIGUSR1, signal.SIGUSR2)


class _OnStderr(Teller):
    """Tells only of long waits and of what must be known: the rest is the command's."""

    def __init__(self) -> None:
        super().__init__(None)

    def waits(self, text: str) -> None:
        say(f"grn: {printable(text)}", err=True)

    def warn(self, text: str) -> None:
        say(f"grn: {printable(text)}", err=True)


def run_with_lease(
    tenant: Tenant, gpus: int, timeout: str | None, name: str, priority: int
) -> int:
    """Wait for devices, let the command run on them, and give its status."""
    for signum in ENDING:
        _handle(signum, _leave)
    wanted = Wanted(
        gpus=gpus,
        timeout_s=None if timeout is None else parse_seconds(timeout),
        delay_s=0.0,
        placeholder=None,
        name=name,
        title=title_of(tenant.program),
        priority=priority,
    )
    held: Held | None = None
    try:
        held = obtain(wanted, _OnStderr())
        return _attend(tenant, held)
    except WaitTimeout as error:
        fail(str(error), TIMED_OUT)
    except CancelledError:
        fail("the lease was cancelled while it waited", INTERRUPTED)
    finally:
        if held is None:
            tenant.dismiss()
        else:
            held.let_go(wait=True)


def _attend(tenant: Tenant, held: Held) -> int:
    """Let the command begin, and pass on what is sent to us until it has ended."""

    def pass_on(signum: int, _: object) -> None:
        if signum not in FROM_TERMINAL or not _in_foreground():
            tenant.signal(signum)

    for signum in PASSED_ON:
        _handle(signum, pass_on)
    tenant.begin(held.variables)
    return tenant.wait()


def _handle(signum: signal.Signals, handler: Callable[[int, object], None]) -> None:
    if signal.getsignal(signum) is not signal.SIG_IGN:  # as under `nohup`
        signal.signal(signum, handler)


def _leave(signum: int, _: object) -> None:
    sys.exit(BY_SIGNAL + signum)


def _in_foreground() -> bool:
    """Whether a terminal has us, and so our command, in its foreground."""
    try:
        terminal = os.open("/dev/tty", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:
        return False
    finally:
        os.close(terminal)
