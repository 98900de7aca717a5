"""Runs the demo: a broker in a place of its own, the same jobs twice, nothing left behind."""

import sys
import time
from collections.abc import Callable
from concurrent.futures import Future as AnyFuture
from concurrent.futures import as_completed, wait
from typing import Final

from ...apart import ignore_signals, private_home
from ...client import this_client
from ...errors import GrnError
from ...futures import Future
from ...starting import start
from ...units import MIB
from ..common import counted, say
from .demofigures import Ran, Round, progress
from .demojobs import KINDS, Kind
from .live import Live
from .topview import View

DEVICES: Final = ("host:0", "host:1")
DEVICE_BYTES: Final = 384 * MIB
# More than will meet on one device: it is memory that shall decide.
MAX_JOBS: Final = 8
OF_EACH_KIND: Final = 4
TITLES: Final = ("round 1: each kind is new", "round 2: each kind is known")
# Far more than a round takes; a machine without free memory would let it wait for ever.
ROUND_S: Final = 60.0
# A run lasts a second: the usual pace of the view would miss half of it.
LIVELY_S: Final = 0.25

Job = tuple[Kind, Future[tuple[float, float]]]
# Shows the jobs of a round until all have ended; False if somebody wants to leave.
Show = Callable[[str, list[Job]], bool]


class TooSlow(GrnError):
    """A round does not end."""

    def __init__(self, left: int) -> None:
        super().__init__(
            f"{left} jobs of the demo have not ended within {ROUND_S:.0f} s. Is there "
            f"{2 * DEVICE_BYTES // MIB} MiB of free memory on this machine? (`free -h`)"
        )
        self.left = left


class DemoFailed(GrnError):
    """A job of the demo has not succeeded."""

    def __init__(self, kind: Kind, error: BaseException | None) -> None:
        super().__init__(
            f"a {kind.name} job of the demo, which takes {kind.memory_bytes // MIB} MiB, "
            f"failed: {error!r}. `grn doctor` looks for what is wrong here"
        )


def play(show: Show) -> list[Round]:
    """Run the rounds, each shown while it lasts; those that were left early are not there."""
    rounds: list[Round] = []
    size = DEVICE_BYTES // MIB
    with private_home("grn-demo-"), start(f"host:{len(DEVICES)}x{size}MiB", max_jobs=MAX_JOBS):
        try:
            for title in TITLES:
                played = _round(title, show)
                if played is None:
                    break
                rounds.append(played)
        finally:
            ignore_signals()
            this_client().close()
    return rounds


def _round(title: str, show: Show) -> Round | None:
    begun = time.monotonic()
    jobs: list[Job] = []
    for _ in range(OF_EACH_KIND):
        for kind in KINDS:
            jobs.append((kind, kind.job.submit(kind.memory_bytes, kind.seconds)))
    if not show(title, jobs):
        return None
    ran = [ran_of(*job) for job in jobs]
    return Round(title, max(one.ended_s for one in ran) - begun, ran)


def ran_of(kind: Kind, future: Future[tuple[float, float]]) -> Ran:
    """What is known of a job that has ended.

    Raises:
        DemoFailed: It has not succeeded.
    """
    error, outcome = future.exception(), future.outcome
    if error is not None or outcome is None:
        raise DemoFailed(kind, error)
    began_s, ended_s = future.result()
    return Ran(
        kind.name,
        outcome.device,
        outcome.predicted_bytes,
        outcome.peak_bytes,
        outcome.wait_s,
        began_s,
        ended_s,
    )


def show_plainly(title: str, jobs: list[Job]) -> bool:
    """Print a line for each job, as they end."""
    say(f"{title}, {counted(len(jobs), 'job')}")
    by_future: dict[AnyFuture[tuple[float, float]], Job] = {job[1]: job for job in jobs}
    try:
        for future in as_completed(by_future, timeout=ROUND_S):
            say(progress(ran_of(*by_future[future])))
    except TimeoutError:
        raise TooSlow(sum(not future.done() for future in by_future)) from None
    return True


def show_live(title: str, jobs: list[Job]) -> bool:
    """Show them on the screen; left early by `q`, and the whole program by a signal."""
    deadline = time.monotonic() + ROUND_S

    def done() -> bool:
        left = sum(not future.done() for _, future in jobs)
        if left and time.monotonic() > deadline:
            raise TooSlow(left)
        return not left

    view = Live(View(f"grn demo, {title}", watching=True), every_s=LIVELY_S, done=done)
    if status := view.run():
        sys.exit(status)
    return not view.left


def show_nothing(_: str, jobs: list[Job]) -> bool:
    """Only wait."""
    left = wait([future for _, future in jobs], timeout=ROUND_S).not_done
    if left:
        raise TooSlow(len(left))
    return True
