"""`grn.acquire`: whole devices for this very process, until it lets go of them or ends.

    with grn.acquire(gpus=2) as lease:
        print(lease.devices)            # CUDA_VISIBLE_DEVICES names them, here and in children

The broker decides who gets what, so nobody can come between looking and claiming.
"""

import sys
import threading
import weakref
from types import TracebackType

from . import backends
from .choosing import checked_count, counted_devices
from .leased import Held, Logger, Teller, dropper
from .leasing import Wanted, obtain, title_of
from .limits import MAX_SECONDS
from .units import parse_seconds


class Lease:
    """Whole devices for this process: an owner, a manager and a context manager in one.

    It lasts until it is released, until nobody has the object any more, or until the process
    ends, however it does. `acquire` again after `release` asks for devices anew.
    """

    def __init__(
        self,
        gpus: int = 1,
        timeout: float | str | None = None,
        placeholder: backends.Placeholder | str | None = None,
        logger: Logger | None = None,
        debug_delay: float = 0.0,
        *,
        name: str = "",
        priority: int = 0,
    ) -> None:
        """Say what is wanted, and ask for nothing yet; `grn.acquire` explains it all."""
        self._wanted = Wanted(
            gpus=checked_count(gpus),
            timeout_s=_seconds("timeout", timeout),
            delay_s=_seconds("debug_delay", debug_delay) or 0.0,
            placeholder=backends.find(placeholder),
            name=name,
            title=title_of(sys.argv[0] if sys.argv else ""),
            priority=priority,
        )
        self._teller = Teller(logger)
        self._held: Held | None = None
        self._acquiring = threading.Lock()
        self._finalizer: weakref.finalize[[Held], Lease] | None = None

    @property
    def devices(self) -> list[int]:
        """The indices of the devices; none before it is acquired and after its release."""
        return list(self._held.begun.indices) if self._held else []

    @property
    def environment(self) -> dict[str, str]:
        """The variables that name the devices; this process has them set."""
        return dict(self._held.begun.environment) if self._held else {}

    @property
    def job_id(self) -> str:
        """The id under which lists show the lease; empty while there is none."""
        return self._held.begun.job_id if self._held else ""

    @property
    def placeholders(self) -> list[object]:
        """What the placeholder gave, device by device."""
        return list(self._held.kept) if self._held else []

    def acquire(self) -> list[int]:
        """Wait for the devices and give their indices.

        Raises:
            RuntimeError: It has devices already, or another thread waits for them.
            DeviceError: They do not exist, or cannot be read.
            WaitTimeout: Not within the timeout; the text lists those that are free.
            BrokerUnavailable: There is no broker.
        """
        if not self._acquiring.acquire(blocking=False):
            raise RuntimeError("another thread is acquiring this lease: take one for each")
        try:
            if self._held is not None:
                raise RuntimeError(
                    f"this lease has {self._held.begun.device} already: release it first, or "
                    f"take a second one with grn.acquire()"
                )
            self._held = obtain(self._wanted, self._teller)
            self._finalizer = weakref.finalize(self, dropper(), self._held)
            self._finalizer.atexit = False  # too late there: see `leased.py`
            return self.devices
        finally:
            self._acquiring.release()

    def release(self) -> None:
        """Give the devices back and put the variables back; harmless if there are none.

        A framework that was used keeps its context until the process ends: a warning says so.
        """
        held, self._held = self._held, None
        if self._finalizer is not None:
            self._finalizer.detach()
        if held is not None:
            held.let_go(wait=True)

    def __enter__(self) -> "Lease":
        if self._held is None:
            self.acquire()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.release()

    def __repr__(self) -> str:
        if self._held is not None:
            return f"<Lease of {self._held.begun.device}>"
        return f"<Lease of {counted_devices(self._wanted.gpus)}, not acquired>"


def acquire(
    gpus: int = 1,
    timeout: float | str | None = None,
    placeholder: backends.Placeholder | str | None = None,
    logger: Logger | None = None,
    debug_delay: float = 0.0,
    *,
    name: str = "",
    priority: int = 0,
) -> Lease:
    """Wait until this process has whole devices to itself, and give the lease.

    Call it before anything touches CUDA. Keep the lease, or use it in a `with` block: the
    devices are free again when it is released, dropped, or when this process ends. Children
    inherit the devices; none of them can release the lease.

    Args:
        gpus: How many; -1 means all that are managed. All of them come at once, or none.
        timeout: How long to wait, in seconds or as "15m"; None for ever, 0 not at all.
        placeholder: Called once for each device with its number as this process counts them,
            from 0; what it returns is kept until the release. Also "pytorch", "tensorflow" or
            "pycuda". Programs that look at NVML then see the devices in use.
        logger: Is told of waiting, of the grant, of the variable's value and of the release.
        debug_delay: Seconds between the grant and the first use, to see races in slow motion.
        name: What lists show.
        priority: Higher ones go first.

    Raises:
        ValueError: No lease can be of so many devices: less than one and not -1.
        DeviceError: So many are not managed, not visible to this process, or cannot be read.
        WaitTimeout: They did not become free in time; `.free` are those that were.
        BrokerUnavailable: There is no broker.
    """
    lease = Lease(gpus, timeout, placeholder, logger, debug_delay, name=name, priority=priority)
    lease.acquire()
    return lease


def _seconds(option: str, value: float | str | None) -> float | None:
    if value is None:
        return None
    if not isinstance(value, int | float | str) or isinstance(value, bool):
        raise TypeError(f"{option}={value!r} must be seconds, or a text such as '15m'")
    try:
        seconds = parse_seconds(value)
    except (ValueError, OverflowError) as error:
        raise ValueError(f"{option}={value!r}: {error}") from None
    if seconds > MAX_SECONDS:
        raise ValueError(f"{option}={value!r} must be from 0 to ten years")
    return seconds
