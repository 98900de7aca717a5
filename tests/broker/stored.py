"""What tests of the journal share: jobs and cells to keep, and looks at what is kept."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from loguru import logger

from broker.cells import Cell, CellId
from broker.changes import Batch, Death, End, KeptJob, KeptSession, Life, NewJob
from broker.journal import Journal
from broker.specs import digest_of
from grn_zmq.records import Blob, JobSpec, Outcome

BOOT = "00000000-0000-4000-8000-000000000001"
SESSION = "5e" * 16

FIT = CellId("train.py::fit", (("batch_size", 32), ("half", True)), "A100 40 GiB")
CELL = Cell(
    version="abc",
    runs=3,
    trust=2,
    mean_bytes=1.5e9,
    squares=2.5e12,
    max_bytes=2 << 30,
    need_bytes=1 << 30,
    bound_bytes=5,
    stand_in_bytes=6,
    ooms=1,
    failures=4,
    last_s=12.5,
    before_s=13.5,
    solo_s=11.5,
    utilisation=0.75,
    mean_utilisation=0.5,
)


def job_id(number: int) -> str:
    return f"{number:032x}"


def ids(*numbers: int) -> list[str]:
    return [job_id(one) for one in numbers]


def a_spec(number: int = 1, **given: object) -> JobSpec:
    """A job in which no field has its default or is empty, unless given so."""
    spec = JobSpec(
        job_id=job_id(number),
        job_type="train.py::fit",
        name=f"fit-{number}",
        kind="call",
        by={"batch_size": 32, "half": True, "lr": 0.1, "model": "größer"},
        policy="pack",
        function="f" * 64,
        context="c" * 64,
        parent=job_id(4711),
        pin="cuda:1",
        stdin="pipe",
        detached=True,
        has_stand_in=True,
        reuse=True,
        version="v3",
        memory_bytes=1 << 30,
        priority=-5,
        oom_retries=4,
        enforce=True,
        payload=b"arguments %d" % number,
        timeout_s=60.0,
        time_limit_s=3600.5,
        retries=2,
        retry_on=("lost", "ValueError"),
        grace_s=7.5,
        token=f"disk-{SESSION}-{number:032x}",
        title="python fit.py",
        variables={"A": "b"},
        after=(job_id(90),),
        after_any=(job_id(91),),
        begin_s=30.0,
        held=True,
        exclusive=True,
        on_end="notify",
        again_of=job_id(92),
        gpus=2,
        among=("0", "GPU-1"),
        queue="night",
        resources={"cpu": "4"},
        environment="tensorflow",
    )
    return replace(spec, **given)  # type: ignore[arg-type]


def a_job(number: int = 1, queued_at: float = 100.0, **given: object) -> NewJob:
    spec = a_spec(number, **given)
    return NewJob(spec, number, SESSION, queued_at, digest_of(spec))


def a_life(number: int = 1, **given: object) -> Life:
    life = Life(job_id(number), 0, "queued")
    return replace(life, **given)  # type: ignore[arg-type]


def an_end(number: int = 1, attempt: int = 1, ended_at: float = 200.0, **given: object) -> End:
    outcome = Outcome(
        job_id=job_id(number),
        outcome="failed",
        exit_status=3,
        signal=9,
        device="cuda:0",
        peak_bytes=1 << 20,
        seen=True,
        wait_s=1.5,
        run_s=2.5,
        attempts=1,
        predicted_bytes=1 << 21,
        fit=4,
        error_type="ValueError",
        error_text="no such value",
        need_bytes=5,
        largest_bytes=6,
        payload=b"result %d" % number,
        last_lines="the end",
        token=f"disk-{SESSION}-{number:032x}",
    )
    outcome = replace(outcome, **given)  # type: ignore[arg-type]
    return End(job_id(number), attempt, outcome, ended_at)


def queued(*numbers: int, payload: bytes = b"arguments") -> Batch:
    """A batch in which these jobs are accepted."""
    return Batch(
        jobs=[a_job(number, payload=payload) for number in numbers],
        lives=[a_life(number) for number in numbers],
    )


def a_bit_of_all() -> list[Batch]:
    """Turns after which every table holds something: jobs 1 to 12, of which 1 to 6 ended."""
    return [
        queued(1, 2, 3, 4, 5, 6),
        Batch(blobs=[Blob("f" * 64, b"a function" * 900), Blob("c" * 64, b"a context")]),
        Batch(
            sessions=[KeptSession(SESSION, 1)],
            lives=[a_life(one, attempt=1, state="assigned", worker="w") for one in range(1, 7)],
        ),
        Batch(ends=[an_end(one) for one in range(1, 6)], cells={FIT: CELL}),
        Batch(expired=[job_id(2)], deaths=[Death("train.py::fit", 0.5, 150.0)]),
        replace(queued(7, 8, 9, payload=b"long" * 3000), durable=True),
        Batch(ends=[an_end(6, payload=b"long" * 3000)]),
        queued(10, 11, 12),
    ]


@dataclass(frozen=True, slots=True)
class Everything:
    """All that a journal gives back; profiles apart, which may be lost without harm."""

    epoch: int
    last_number: int
    jobs: list[KeptJob]
    payloads: dict[str, bytes]
    sessions: list[KeptSession]
    blobs: list[Blob]
    deaths: list[Death]


def everything(journal: Journal) -> Everything:
    kept = journal.load()
    jobs = list(kept.jobs)
    payloads = {}
    for job in jobs:
        one = job.new.spec.job_id
        payloads[one] = journal.payload(one) if job.life else journal.result(one)
    return Everything(
        kept.epoch,
        kept.last_number,
        jobs,
        payloads,
        list(kept.sessions),
        list(kept.blobs),
        list(kept.deaths),
    )


@contextmanager
def a_journal(path: Path, boot_id: str = BOOT, now: float = 1000.0) -> Iterator[Journal]:
    """A journal of which the clock stands, closed in the end."""
    with closing(Journal(path, boot_id, monotonic=lambda: now, wall=lambda: now)) as journal:
        yield journal


def write(path: Path, *batches: Batch) -> None:
    with a_journal(path) as journal:
        for batch in batches:
            journal.write(batch)


def jobs_in(path: Path, boot_id: str = BOOT, now: float = 1000.0) -> list[KeptJob]:
    with a_journal(path, boot_id, now) as journal:
        return list(journal.load().jobs)


def cells_in(path: Path) -> dict[CellId, Cell]:
    with a_journal(path) as journal:
        return dict(journal.load().cells)


def keep(path: Path, *cells: tuple[CellId, Cell]) -> None:
    """Keep these profiles, one turn for each."""
    write(path, *(Batch(cells=dict([one])) for one in cells))


def change(path: Path, *statements: str) -> None:
    """Do to the file what no journal would."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for statement in statements:
            connection.execute(statement)


def contents(directory: Path) -> dict[str, bytes]:
    """All that is kept there: neither the index of the log, nor a log that is empty."""
    return {
        one.name: one.read_bytes()
        for one in directory.iterdir()
        if one.is_file() and one.name not in ("state.db-shm", "ballast")
        if one.stat().st_size or one.name != "state.db-wal"
    }


@contextmanager
def warnings_heard() -> Iterator[list[str]]:
    """What was logged as a warning, with its facts."""
    said: list[str] = []
    sink = logger.add(
        lambda text: said.append(str(text)), level="WARNING", format="{message} {extra}"
    )
    yield said
    logger.remove(sink)
