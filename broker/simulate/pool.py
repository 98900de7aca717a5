"""Many cases over the cores of this machine."""

import multiprocessing
import os
import signal
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor, as_completed

from grn_zmq.lifeline import end_with_parent

from .cases import Case, Results, play

Tell = Callable[[int, int, str], None]


def play_all(cases: Iterable[Case], processes: int, tell: Tell) -> Results:
    """Play every case; `tell` hears how many of how many are done, and what was last."""
    groups = _groups(cases)
    total = sum(map(len, groups))
    results: Results = {}
    if processes <= 1 or len(groups) == 1:
        for group in groups:
            for case in group:
                results.update(_play_group([case]))
                tell(len(results), total, _text(case))
        return results
    # Freshly started processes: nothing of ours is copied half-way through.
    with ProcessPoolExecutor(
        min(processes, len(groups)),
        multiprocessing.get_context("spawn"),
        initializer=end_with_parent,
        initargs=(os.getpid(),),
    ) as pool:
        # Its processes start now, and inherit this: Ctrl-C is ours to handle.
        usual = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        futures = {pool.submit(_play_group, group): group for group in groups}
        try:
            signal.pthread_sigmask(signal.SIG_SETMASK, usual)
            for future in as_completed(futures):
                results.update(future.result())
                tell(len(results), total, _text(futures[future][-1]))
        except BaseException:
            for child in multiprocessing.active_children():
                child.terminate()  # nobody waits for what they would find
            raise
    return results


def _groups(cases: Iterable[Case]) -> list[list[Case]]:
    """Cases that differ by load only stay together: they learn from the same earlier run."""
    groups: dict[object, list[Case]] = {}
    for case in cases:
        groups.setdefault((case.scene, case.policy), []).append(case)
    return list(groups.values())


def _play_group(group: list[Case]) -> Results:
    return {case: play(case)[1] for case in group}


def _text(case: Case) -> str:
    return f"{case.scene.workload}, {case.policy}, seed {case.scene.seed}"
