"""What the broker says of devices and profiles while jobs run."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from grn_zmq.facts import ProfileRow
from tests.e2e.listed import all_devices, all_profiles

SAMPLE_S = 0.05


def profile_of(job_type: str) -> ProfileRow:
    """The only profile of a type."""
    (row,) = [row for row in all_profiles() if row.job_type == job_type]
    return row


@dataclass
class Watched:
    """What was seen of the devices while somebody looked."""

    samples: int = 0
    wrong: list[str] = field(default_factory=list)
    most_jobs: int = 0
    errors: list[Exception] = field(default_factory=list)


@contextmanager
def leases_watched() -> Iterator[Watched]:
    """Look at the devices all along: what is promised may never exceed any of them."""
    seen = Watched()
    done = threading.Event()

    def look() -> None:
        rows = all_devices()
        seen.samples += 1
        seen.most_jobs = max(seen.most_jobs, sum(row.jobs for row in rows))
        seen.wrong += [
            f"{row}"
            for row in rows
            if row.leased_bytes + row.foreign_bytes > row.facts.total_bytes
        ]

    def look_all_along() -> None:
        try:
            while not done.wait(SAMPLE_S):
                look()
        except Exception as error:
            seen.errors.append(error)

    looker = threading.Thread(target=look_all_along)
    looker.start()
    try:
        yield seen
    finally:
        done.set()
        looker.join()
    for error in seen.errors:  # what nobody looked at may have been wrong
        raise error
