"""What must be reached beside the peers; the rest is in `grn_zmq.bench.claims`."""

from typing import Final

from grn_zmq.bench.claims import Claim, own_claims
from grn_zmq.bench.figures import OURS
from grn_zmq.bench.sizes import Size

# Jobs per second of ours, at least so many times theirs, and what is aimed at.
RATES: Final = {
    "ray": (8.0, 20.0),
    "dask": (10.0, 20.0),
    "celery": (10.0, 20.0),
    "ipyparallel": (10.0, 20.0),
    "parsl": (10.0, 20.0),
    "process-pool": (1.5, 4.0),
    "loky": (1.5, 4.0),
}


def all_claims(size: Size) -> list[Claim]:
    beside = [*_claims_on_rates(), *_claims_on_bulk(size), *_others()]
    claims = [*own_claims(size), *_growth(size), *beside]
    return sorted(claims, key=lambda one: ORDER.index(one.row))


# The order of the table.
ORDER: Final = (
    "noop", "latency", "alone", "spawn", "large", "payload",
    "deep", "workers", "first", "warm", "commands", "idle",
)  # fmt: skip


def _growth(size: Size) -> list[Claim]:
    """Seen only: how many cores there are for workers decides."""
    first, *more = size.worker_counts
    return [
        Claim(
            "workers",
            f"no-op jobs, {count} workers against {first}",
            f"rate_{count}",
            against=OURS,
            against_series=f"rate_{first}",
            unit="x",
        )
        for count in more
    ]


def _claims_on_rates() -> list[Claim]:
    return [
        Claim(
            "noop",
            f"the same, against {peer}",
            "rate",
            against=peer,
            unit="x",
            must=must,
            aim=aim,
        )
        for peer, (must, aim) in RATES.items()
    ]


def _claims_on_bulk(size: Size) -> list[Claim]:
    return [
        Claim(
            "large",
            f"{size.large_bytes >> 20} MiB in and out, time against ray",
            "seconds",
            against="ray",
            unit="x",
            at_most=True,
            must=1.0,
            aim=0.8,
        ),
        *(
            Claim(
                "payload",
                f"{size.pieces} x 1 MiB in and out, rate against {peer}",
                "mb_per_s",
                against=peer,
                unit="x",
                must=2.0,
            )
            for peer in ("ray", "loky")
        ),
    ]


def _others() -> list[Claim]:
    return [
        Claim(
            "first",
            "the same, time against ray",
            "function_s",
            against="ray",
            unit="x",
            at_most=True,
            must=1 / 5,
        ),
        Claim(
            "warm",
            "torch in a new process, against a cold interpreter",
            "next_s",
            against=OURS,
            against_series="cold_s",
            unit="x",
            at_most=True,
            must=1 / 20,
            aim=1 / 50,
        ),
        Claim(
            "commands",
            "commands (`true`), rate against task-spooler",
            "rate",
            against="tsp",
            unit="x",
            must=1.0,
            aim=2.0,
        ),
    ]
