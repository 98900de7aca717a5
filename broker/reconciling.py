"""What a greeting says about an attempt that its worker was given: the one table for it."""

from enum import StrEnum


class Verdict(StrEnum):
    KEEP = "it runs, or its result is on the way"
    NEVER = "it was never started: back to the queue"
    LOST = "it may have run and cannot be asked: lost, or retried"


def judge(
    held: str | None, *, same_boot: bool, same_incarnation: bool, begun: bool = False
) -> Verdict:
    """Decide about one leased attempt.

    Args:
        held: What the greeting worker has of it; None if it has never heard of it, and, being
            fenced by its greeting, never will.
        begun: Whether a worker has said that its body runs.
    """
    if held == "finished":
        return Verdict.KEEP
    if not same_boot:
        return Verdict.LOST  # what was not flushed to the disk is gone: nothing is proved
    if same_incarnation and held == "running":
        return Verdict.KEEP
    return Verdict.NEVER if held is None and not begun else Verdict.LOST
