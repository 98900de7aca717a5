"""What must be reached, what is aimed at, and whether it is: pure arithmetic on a book."""

from dataclasses import KW_ONLY, dataclass
from typing import Final, Literal

from .figures import ECHO, OURS, Book, ratio
from .sizes import Size

Verdict = Literal["aim", "must", "no", "missing", ""]
# The echo around our own measurement, as something to be compared with.
R: Final = "R"
L: Final = "L"


@dataclass(frozen=True, slots=True)
class Claim:
    """One line of the table: a figure of ours, perhaps as a ratio, and its bounds."""

    row: str
    text: str
    series: str
    _: KW_ONLY
    # What it is divided by: R, L, or a contender and a series of the same row.
    against: str = ""
    against_series: str = ""
    unit: str = ""
    # Less is better; else more is.
    at_most: bool = False
    must: float | None = None
    aim: float | None = None


@dataclass(frozen=True, slots=True)
class Judged:
    """A claim, what was seen, and what that is worth."""

    claim: Claim
    seen: float | None
    verdict: Verdict


def seen(claim: Claim, book: Book) -> float | None:
    """The figure of a claim, or None if something of it was not measured."""
    found = book.find(claim.row)
    value = found.median(claim.series) if found else None
    if found is None or not claim.against:
        return value
    if claim.against in (R, L):
        return ratio(value, found.echo_rate if claim.against == R else found.echo_p50_s)
    series = claim.against_series or claim.series
    return ratio(value, book.median(claim.row, claim.against, series))


def judge(claim: Claim, book: Book) -> Judged:
    figure = seen(claim, book)
    if figure is None:
        return Judged(claim, None, "missing")
    if claim.aim is not None and _reaches(figure, claim.aim, claim.at_most):
        return Judged(claim, figure, "aim")
    if claim.must is not None:
        reached = _reaches(figure, claim.must, claim.at_most)
        return Judged(claim, figure, "must" if reached else "no")
    return Judged(claim, figure, "")


def _reaches(figure: float, bound: float, at_most: bool) -> bool:
    return figure <= bound if at_most else figure >= bound


def own_claims(size: Size) -> list[Claim]:
    """What can be said of ours without any peer."""
    return [
        *_claims_on_calls(),
        *_claims_on_handing(size),
        *_claims_on_queues(size),
        *_claims_on_programs(size),
    ]


def _claims_on_calls() -> list[Claim]:
    return [
        Claim(
            "noop",
            "no-op jobs, many in flight",
            "rate",
            against=R,
            unit="x R",
            must=0.8,
            aim=2.0,
        ),
        Claim(
            "latency",
            "one call in flight, p50",
            "p50_s",
            against=L,
            unit="x L",
            at_most=True,
            must=4.0,
            aim=2.5,
        ),
        Claim(
            "alone",
            "one job per worker at a time",
            "rate",
            against=R,
            unit="x R",
            must=0.15,
            aim=0.25,
        ),
    ]


def _claims_on_handing(size: Size) -> list[Claim]:
    return [
        Claim("spawn", "`spawn`, in the time of one fsync", "per_flush", unit="jobs", must=0.5),
        Claim(
            "spawn",
            f"`spawn_map` of {size.spawn_map:,}",
            "spawn_map",
            unit="jobs/s",
            must=5000.0,
        ),
        Claim(
            "payload",
            f"{size.pieces} x 1 MiB in and out, against the raw echo",
            "mb_per_s",
            against=ECHO,
            unit="x",
            aim=1.0,
        ),
    ]


def _claims_on_queues(size: Size) -> list[Claim]:
    return [
        Claim(
            "deep",
            f"broker memory per queued job, {size.queued:,} queued",
            "bytes_per_job",
            unit="B",
            at_most=True,
            must=1024.0,
            aim=400.0,
        ),
        Claim(
            "deep",
            f"drain rate, {size.queued:,} queued against {size.queued_few:,}",
            "drain_many",
            against=OURS,
            against_series="drain_few",
            unit="x",
            must=0.7,
            aim=0.95,
        ),
    ]


def _claims_on_programs(size: Size) -> list[Claim]:
    starts = {"command_s": "a command", "function_s": "a program that calls a job"}
    return [
        *(
            Claim(
                "first",
                f"nothing running -> first result, {what}",
                series,
                unit="s",
                at_most=True,
                must=1.5,
                aim=0.7,
            )
            for series, what in starts.items()
        ),
        Claim(
            "commands",
            "commands (`true`), against one after the other",
            "rate",
            against=OURS,
            against_series="bare_rate",
            unit="x",
        ),
        Claim(
            "idle",
            f"idle: broker and {size.idle_workers} workers, of one core",
            "idle_percent",
            unit="%",
            at_most=True,
            must=2.0,
        ),
        Claim(
            "idle",
            f"the same with {size.running} running jobs sampled",
            "running_percent",
            unit="%",
            at_most=True,
            must=10.0,
        ),
    ]
