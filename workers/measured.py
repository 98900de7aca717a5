"""What is known of one attempt's use of its device, from everybody who tells."""

from dataclasses import dataclass, field

from grn_zmq.frameworks import Counters


@dataclass(slots=True)
class Measured:
    """Memory and load of one attempt.

    `used_bytes` is its present use, right for room; it teaches nothing where it is a guess,
    an even share of what could not be told apart. `seen` says that something was its own.
    `elsewhere` is its use of the other devices of its lease, by uuid; the peak is the largest
    of any of them.
    """

    used_bytes: int = 0
    elsewhere: dict[str, int] = field(default_factory=dict)
    peak_bytes: int = 0
    need_bytes: int = 0
    seen: bool = False
    utilisation: float = 0.0
    _own: bool = False
    _load_s: float = 0.0
    _watched_s: float = 0.0
    _looked_at: float | None = None

    @property
    def mean_utilisation(self) -> float:
        return self._load_s / self._watched_s if self._watched_s else self.utilisation

    def take_use(self, used_bytes: int, *, own: bool) -> None:
        """Take one look at its memory; `own` if the figure is no guess."""
        self.used_bytes = used_bytes
        self._own = own
        if own:
            self.seen = True
            self.peak_bytes = max(self.peak_bytes, used_bytes)

    def take_use_elsewhere(self, device: str, used_bytes: int, *, own: bool) -> None:
        """The same of another device of its lease."""
        self.elsewhere[device] = used_bytes
        if own:
            self.seen = True
            self.peak_bytes = max(self.peak_bytes, used_bytes)

    def take_load(self, utilisation: float, now: float) -> None:
        """Take one look at the load of its device."""
        self.utilisation = max(self.utilisation, utilisation)
        if self._looked_at is not None:
            self._load_s += utilisation * (now - self._looked_at)
            self._watched_s += now - self._looked_at
        self._looked_at = now

    def take_peak(self, peak_bytes: int) -> None:
        """Take a peak that somebody kept; 0 if nobody did."""
        self.peak_bytes = max(self.peak_bytes, peak_bytes)

    def take_account(self, peak_bytes: int, *, on_host: bool) -> None:
        """Take a peak of which somebody kept account."""
        self.take_peak(peak_bytes)
        # What the kernel says at the end has the interpreter in it that became a command.
        self.seen |= bool(peak_bytes) and not on_host

    def take_counters(self, counters: Counters) -> None:
        """Take what its frameworks counted, right after a look at its memory.

        What it uses beyond their pools (contexts, other libraries) is then known, and need
        not be guessed: with it the pools' peaks are what it wanted, and what it would have
        managed with.
        """
        if not self._own or not counters.reserved_peak_bytes:
            return
        beside = max(0, self.used_bytes - counters.reserved_bytes)
        self.take_peak(beside + counters.reserved_peak_bytes)
        self.need_bytes = beside + counters.allocated_peak_bytes
