"""Jobs by number, range, list, beginning of an id, name, @ and @~1; R76 and R100 by command."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import grn_zmq as grn
from tests.cli.scripts import run, started
from tests.cli.verbs import cancel_all, facts, row_of, said, submit, until_ended
from tests.cli.verbs import grn as call

pytestmark = pytest.mark.e2e

SMALL = ("--memory", "10M", "--type", "small")


@pytest.fixture(scope="module")
def numbers(small_server: grn.Server) -> Iterator[list[int]]:
    """Three jobs that were held before they could start: alpha, beta, alpha."""
    names = ("alpha", "beta", "alpha")
    yield [submit(*SMALL, "--hold", "--name", name, "--", "true") for name in names]
    cancel_all()


def found(*refs: str) -> list[int]:
    return [row["number"] for row in facts("ps", *refs)]


def test_jobs_are_found_by_number_range_and_list(numbers: list[int]) -> None:
    first, second, third = numbers

    assert found(str(second)) == [second]
    assert found(f"{first}-{third}") == numbers
    assert found(f"{first},{third}") == [first, third]
    assert found(f"{second},{first}-{second}") == [first, second]
    assert found(str(third), str(first), str(third)) == [third, first]


def test_jobs_are_found_by_name_and_from_the_end(numbers: list[int]) -> None:
    first, second, third = numbers

    assert found("alpha") == [first, third]
    assert found("beta") == found("@~1") == [second]
    assert found("@") == [third]
    assert found("@~2", "@") == [first, third]


def test_g31_a_unique_prefix_of_an_id_is_enough(numbers: list[int]) -> None:
    job_id = row_of(numbers[1])["job_id"]

    assert len(job_id) == 32
    assert found(job_id) == found(job_id[:12]) == [numbers[1]]
    assert said("why", job_id[:16]).startswith(f"Job {numbers[1]}: held")


def test_every_verb_takes_them(numbers: list[int]) -> None:
    assert said("release", "beta") == f"Released job {numbers[1]}\n"
    until_ended(numbers[1])
    assert call("wait", "@~1").exit_code == 0
    assert said("show", "beta").split()[:3] == ["Job", "number", str(numbers[1])]
    assert said("priority", "3", "alpha") == f"Priority 3 for jobs {numbers[0]}, {numbers[2]}\n"
    assert call("logs", "beta").stderr == f"grn: job {numbers[1]} printed nothing\n"
    assert said("hold", "@") == f"Held job {numbers[2]}\n"


def test_a_name_of_several_does_not_do_where_one_is_wanted(numbers: list[int]) -> None:
    both = f"{numbers[0]}, {numbers[2]}"
    for verb in ("why", "logs"):
        done = call(verb, "alpha")

        assert done.exit_code == 1
        assert done.stderr == f"grn: alpha means 2 jobs ({both}): name one of them\n"


def test_r76_r100_with_debug_every_step_is_logged_and_max_jobs_is_never_exceeded(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path_factory.mktemp("g")
    for name in ("XDG_RUNTIME_DIR", "XDG_STATE_HOME"):
        place = Path(home) / name[4:9].strip("_").lower()
        place.mkdir(mode=0o700)
        monkeypatch.setenv(name, str(place))
    here = home / "here"
    here.mkdir()
    script = f"touch {here}/$$; ls {here} | wc -l >> {home}/seen; sleep 0.2; rm {here}/$$"
    words = ("submit", "--array", "1-6", *SMALL, "--", "sh", "-c", script)
    with started("--devices", "host:1x500MiB", "--max-jobs", "2", "--debug") as server:
        assert run("grn", *words).returncode == 0
        assert run("grn", "wait", "1-6").returncode == 0
        log = server.err.splitlines()

    seen = [int(line) for line in (home / "seen").read_text().split()]
    assert len(seen) == 6
    assert max(seen) <= 2
    for word in ("accepted", "placed", "started", "ended"):
        lines = [line for line in log if f" {word} " in line]
        assert len(lines) == 6, word
        assert all("type=small" in line for line in lines)
    placed = [line for line in log if " placed " in line]
    assert all("device=host:0" in line and " lease_bytes=" in line for line in placed)
    assert all(" peak_bytes=" in line for line in log if " ended " in line)
