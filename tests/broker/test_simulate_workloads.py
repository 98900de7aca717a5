"""Streams of jobs: they follow from their seeds, and from traces given by path."""

from collections import Counter
from pathlib import Path

import pytest

from broker.simulate import workloads
from broker.simulate.jobs import GIB, Stream
from broker.simulate.physics import LAWS
from broker.simulate.plan import Asked, BadPlan, cases_of, notes_of, with_traces
from broker.simulate.traces import BadTrace, openb, philly
from broker.simulate.workloads import Seeds

RECENT = LAWS["recent"]

PHILLY = "timestamp,duration,num_gpus,gpu_time,cluster\n" + "".join(
    f"2017-10-{1 + n // 24:02} {n % 24:02}:00:00,{60 + n}.0,{1 if n % 10 else 8},0,abc{n % 3}\n"
    for n in range(300)
)
OPENB = (
    "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,"
    "deletion_time,scheduled_time\n"
    + "".join(
        f"pod-{n},{1000 * (n % 4)},4096,{n % 5 > 0:d},{(n % 4 + 1) * 250},,LS,Running,"
        f"{100 * n},{100 * n + 50 + n},{100 * n + 10}\n"
        for n in range(300)
    )
    + "pod-never,1000,4096,1,500,,LS,Pending,5,,\n"
)


@pytest.fixture
def philly_csv(tmp_path: Path) -> Path:
    path = tmp_path / "philly.csv"
    path.write_text(PHILLY)
    return path


@pytest.fixture
def openb_csv(tmp_path: Path) -> Path:
    path = tmp_path / "openb.csv"
    path.write_text(OPENB)
    return path


def a_sweep(types: int = 1, runs: int = 0) -> Stream:
    return workloads.sweep(Seeds(types, runs), 1200, 8, RECENT)


def test_a_sweep_has_twelve_types_with_five_sizes_each_equally_often() -> None:
    stream = a_sweep()

    cells = Counter((job.job_type, job.by["batch_size"]) for job in stream.jobs)
    assert len({job_type for job_type, _ in cells}) == 12
    assert set(cells.values()) == {20}
    assert len(cells) == 60


def test_a_quarter_of_the_types_of_a_sweep_grow_late_and_memory_grows_with_the_size() -> None:
    stream = a_sweep()

    late = {job.job_type for job in stream.jobs if job.steps[-1].progress > 0.3}
    assert len(late) == 3
    sizes = {16: 0, 256: 0}
    for job in stream.jobs:
        size = job.by["batch_size"]
        if job.job_type.endswith("_2") and size in sizes:
            sizes[int(size)] = max(sizes[int(size)], job.peak_bytes)
    assert sizes[256] > 2 * sizes[16]


def test_the_same_seeds_give_the_same_jobs_and_another_order_the_same_types() -> None:
    once, again, other = a_sweep(), a_sweep(), a_sweep(runs=1)

    assert once == again
    assert once.jobs != other.jobs
    assert _largest(once) == pytest.approx(_largest(other), rel=0.1)
    assert _largest(once) != pytest.approx(_largest(a_sweep(types=2)), rel=0.1)


def _largest(stream: Stream) -> list[int]:
    peaks: dict[str, int] = {}
    for job in stream.jobs:
        peaks[job.job_type] = max(job.peak_bytes, peaks.get(job.job_type, 0))
    return [peaks[job_type] for job_type in sorted(peaks)]


def test_every_job_fits_an_empty_device(philly_csv: Path, openb_csv: Path) -> None:
    for seed in range(5):
        seeds = Seeds(seed, 0)
        for stream in (
            a_sweep(seed),
            workloads.adversary(seeds, 300, 8, RECENT),
            philly(philly_csv, seeds, 200, 8, RECENT),
            openb(openb_csv, seeds, 200, 8, RECENT),
        ):
            most = max(job.peak_bytes for job in stream.jobs)
            assert GIB < most <= 0.98 * stream.device_bytes, stream.name


def test_the_adversary_doubles_the_peak_with_new_code() -> None:
    stream = workloads.adversary(Seeds(1, 0), 500, 8, RECENT)

    peaks = {
        version: max(job.peak_bytes for job in stream.jobs if job.version == version)
        for version in ("before", "after")
    }
    assert peaks["after"] == pytest.approx(2 * peaks["before"], rel=0.15)


def test_philly_gives_arrivals_and_lengths_and_says_what_was_left_out(philly_csv: Path) -> None:
    stream = philly(philly_csv, Seeds(1, 0), 10_000, 8, RECENT)

    assert len(stream.jobs) == 267  # of 300, 30 want eight GPUs and 3 are the longest
    lengths = {job.solo_s for job in stream.jobs}
    assert {float(60 + n) for n in range(1, 50) if n % 10} <= lengths
    assert all(job.utilisation >= 0.2 for job in stream.jobs)
    assert "30 of 300 jobs left out" in stream.notes[0]
    assert "3 jobs longer than 356 s" in stream.notes[1]


def test_openb_types_are_what_was_requested(openb_csv: Path) -> None:
    stream = openb(openb_csv, Seeds(1, 0), 10_000, 8, RECENT)

    assert {job.job_type.rpartition("_")[2] for job in stream.jobs} == {
        "250",
        "500",
        "750",
        "1000",
    }
    for job in stream.jobs:
        if job.job_type.endswith("_250"):
            assert job.peak_bytes < 0.3 * stream.device_bytes
    assert "never run" in stream.notes[0]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "no column timestamp"),
        ("a,b\n1,2\n", "no column timestamp"),
        (
            "timestamp,duration,num_gpus,cluster\n2017-10-09 07:01:55,66,8,x\n",
            "no job of one GPU",
        ),
        (
            "timestamp,duration,num_gpus,cluster\n2017-10-09 07:01:55,66,1,x\nsoon,66,1,x\n",
            "line 3: timestamp is 'soon', not a time like",
        ),
        (
            "timestamp,duration,num_gpus,cluster\n2017-10-09 07:01:55,long,1,x\n",
            "line 2: duration is 'long', not a number",
        ),
        (
            "timestamp,duration,num_gpus,cluster\n2017-10-09 07:01:55,nan,1,x\n",
            "line 2: duration is 'nan', not a number",
        ),
        ("timestamp,duration,num_gpus,cluster\n2017-10-09 07:01:55,5\n", "has no num_gpus"),
    ],
)
def test_a_file_that_is_no_trace_is_refused_with_a_reason(
    tmp_path: Path, content: str, said: str
) -> None:
    path = tmp_path / "trace.csv"
    path.write_text(content)

    with pytest.raises(BadTrace, match=said):
        philly(path, Seeds(1, 0), 10, 8, RECENT)
    with pytest.raises(BadTrace, match="cannot read the trace"):
        philly(tmp_path / "nothing.csv", Seeds(1, 0), 10, 8, RECENT)


@pytest.mark.parametrize(
    ("without", "said"),
    [
        ("scheduled_time", "no column scheduled_time; wanted are cpu_milli,memory_mib"),
        ("cpu_milli", "no column cpu_milli"),
    ],
)
def test_an_openb_trace_without_a_column_is_refused(
    tmp_path: Path, without: str, said: str
) -> None:
    path = tmp_path / "openb.csv"
    path.write_text(OPENB.replace(without, "other", 1))

    with pytest.raises(BadTrace, match=said):
        openb(path, Seeds(1, 0), 10, 8, RECENT)


def test_a_wrong_number_of_openb_is_named_and_zones_do_not_matter(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    path.write_text(OPENB.replace(",500,,LS,Running,", ",half,,LS,Running,", 1))
    with pytest.raises(BadTrace, match="line 3: gpu_milli is 'half', not a number"):
        openb(path, Seeds(1, 0), 10, 8, RECENT)

    path.write_text(PHILLY.replace(":00:00,", ":00:00+02:00,"))
    assert len(philly(path, Seeds(1, 0), 10_000, 8, RECENT).jobs) == 267


def test_the_option_of_a_trace_says_which_workload_is_meant(tmp_path: Path) -> None:
    path = tmp_path / "some.csv"

    for asked in (
        with_traces(Asked(traces={"philly": path}), None),
        with_traces(Asked(workloads=["philly"]), path),
    ):
        assert list(asked.workloads) == ["philly"]
        assert asked.traces == {"philly": path}
    assert list(with_traces(Asked(), None).workloads) == []


@pytest.mark.parametrize(
    ("asked", "trace", "said"),
    [
        (Asked(), Path("x.csv"), "which kind of trace is x.csv"),
        (Asked(workloads=["sweep"]), Path("x.csv"), "which kind of trace"),
        (Asked(workloads=["philly", "openb"]), Path("x.csv"), "--philly or --openb"),
        (Asked(everything=True), Path("x.csv"), "which kind of trace"),
        (
            Asked(workloads=["sweep"], traces={"openb": Path("x.csv")}),
            None,
            "--openb is given, but --workload openb is not",
        ),
    ],
)
def test_a_trace_that_nobody_would_read_is_refused(
    asked: Asked, trace: Path | None, said: str
) -> None:
    with pytest.raises(BadPlan, match=said):
        with_traces(asked, trace)


def test_everything_is_three_workloads_at_three_loads_with_ten_seeds(
    philly_csv: Path, openb_csv: Path
) -> None:
    traces = {"philly": philly_csv, "openb": openb_csv}
    cases = cases_of(Asked(everything=True, traces=traces))

    assert len(cases) == len(set(cases)) == 3 * 3 * 10 * 7
    assert any("there are no gangs yet" in note for note in notes_of(cases))


def test_what_is_missing_is_named() -> None:
    with pytest.raises(BadPlan, match="--philly FILE --openb FILE"):
        cases_of(Asked(everything=True))
    with pytest.raises(BadPlan, match="--openb FILE"):
        cases_of(Asked(workloads=["sweep", "openb"]))


def test_another_run_of_a_trace_has_the_same_jobs_in_another_order(openb_csv: Path) -> None:
    once = openb(openb_csv, Seeds(3, 0), 50, 8, RECENT).jobs
    other = openb(openb_csv, Seeds(3, 1), 50, 8, RECENT).jobs

    assert Counter(job.job_type for job in once) == Counter(job.job_type for job in other)
    assert sorted(job.solo_s for job in once) == sorted(job.solo_s for job in other)
    assert [job.solo_s for job in once] != [job.solo_s for job in other]
