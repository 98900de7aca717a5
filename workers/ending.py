"""The ladder by which an attempt is ended: INT, TERM, KILL, with a grace between. Pure."""

from collections.abc import Iterable
from signal import SIGINT, SIGTERM
from typing import Final

from .effects import Close, Effect, Kill, Signal
from .runs import ActiveRun, Phase, Process

# A job process whose function has returned needs no grace: atexit handlers, then the end.
LEAVE_S: Final = 1.0
# What was killed and has not gone is killed again: it may have been in the kernel.
KILL_AGAIN_S: Final = 5.0
# What a job may ask for when its worker gets SIGTERM: whoever sent it does not wait for long.
LEAVING_GRACE_S: Final = 8.0
IDLE_S: Final = 60.0


def ask_to_end(active: ActiveRun, how: str, now: float) -> list[Effect]:
    """Take the first step; nothing if it was taken before or the function has ended."""
    if active.process is None or active.result is not None or active.asked_to_end:
        return []
    active.asked_to_end = True
    active.phase = Phase.ENDING
    active.deadline = now + active.run.grace_s
    active.next_signal = SIGTERM if how == "interrupt" else None
    return [Signal(active.process, SIGINT if how == "interrupt" else SIGTERM)]


def step(active: ActiveRun, now: float) -> list[Effect]:
    """Take the next step if a grace has run out, or the first if it has run for too long."""
    if active.limit_at is not None and now >= active.limit_at:
        first = [] if active.inline else ask_to_end(active, "terminate", now)
        if first:
            active.timed_out = True
            return first
    if active.deadline is None or now < active.deadline or active.process is None:
        return []
    if active.next_signal is None:
        active.deadline = now + KILL_AGAIN_S
        return [Kill(active.process)]
    return hasten(active, now)


def hasten(active: ActiveRun, now: float) -> list[Effect]:
    """Go on from INT to TERM now; nothing if it is not there."""
    if active.next_signal is None or active.process is None:
        return []
    signum, active.next_signal = active.next_signal, None
    active.deadline = now + active.run.grace_s
    return [Signal(active.process, signum)]


def pass_on(before: ActiveRun, active: ActiveRun) -> None:
    """Who follows one that is being ended is being ended too."""
    active.phase = Phase.ENDING
    active.asked_to_end, active.leaving = before.asked_to_end, before.leaving
    active.deadline, active.next_signal = before.deadline, before.next_signal


def see_off(active: ActiveRun, key: int, now: float) -> list[Effect]:
    """Its function has ended: its process has a moment to leave."""
    active.phase = Phase.ENDING
    active.next_signal = None
    active.deadline = now + LEAVE_S
    return [Close(key)]


def end_all(
    runs: Iterable[ActiveRun], now: float, most_grace_s: float = float("inf")
) -> list[Effect]:
    """End everything, with no more grace than this."""
    effects: list[Effect] = []
    for active in runs:
        first = [] if active.inline else ask_to_end(active, "terminate", now)
        active.leaving |= bool(first)
        effects += first or hasten(active, now)
        if active.deadline is not None:
            active.deadline = min(active.deadline, now + most_grace_s)
    return effects


def step_processes(processes: Iterable[Process], now: float) -> list[Effect]:
    """Kill what was to end and has not; let end what nobody has needed for long."""
    effects: list[Effect] = []
    for process in processes:
        if process.kill_at is not None and now >= process.kill_at:
            process.kill_at = now + KILL_AGAIN_S
            effects.append(Kill(process.key))
        elif process.idle_for(now) >= IDLE_S:
            effects += close([process], now)
    return effects


def close(processes: Iterable[Process], now: float) -> list[Effect]:
    """Let idle processes end quietly, and not for long."""
    effects: list[Effect] = []
    for process in processes:
        process.kill_at = now + LEAVE_S
        effects.append(Close(process.key))
    return effects
