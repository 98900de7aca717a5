"""A hook may hold a secret, such as a token in a URL: it is not in the list of processes."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.scripts import run
from tests.waiting import until

pytestmark = pytest.mark.e2e

SECRET = "t0ken-4711"
START = ("start", "--detach", "--devices", "host:1x200MiB")


@pytest.fixture
def hook(home: Path) -> Iterator[str]:
    """A hook that goes on until its gate is open, so that it can be looked at."""
    for name in ("told", "gate"):
        (home / name).unlink(missing_ok=True)
    yield (
        f"echo {SECRET} $GRN_OUTCOME ${{GRN_HOOK-gone}} > {home}/part && "
        f"mv {home}/part {home}/told; until test -e {home}/gate; do sleep 0.05; done"
    )
    (home / "gate").touch()
    run("grn", "stop")


def who_says(secret: str, what: str) -> list[str]:
    """The command lines of the processes in whose `cmdline` or `environ` it stands."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if secret.encode() in (process / what).read_bytes():
                found.append((process / "cmdline").read_bytes().replace(b"\0", b" ").decode())
        except OSError:
            continue  # of somebody else, or gone
    return found


@pytest.mark.parametrize("way", ["flag", "variable", "file"])
def test_no_command_line_shows_the_hook_and_no_job_or_worker_inherits_it(
    home: Path, hook: str, way: str
) -> None:
    grn_toml = home / "config" / "grn" / "grn.toml"
    grn_toml.parent.mkdir(exist_ok=True)
    grn_toml.write_text(f'on_end = """{hook}"""\n' if way == "file" else "")
    words = ("--on-end", hook) if way == "flag" else ()
    variables = {"GRN_ON_END": hook} if way == "variable" else {}
    assert run("grn", *START, *words, environment=variables).returncode == 0

    body = f"env > {home}/env"
    done = run("grn", "submit", "--wait", "--memory", "10M", "--", "sh", "-c", body)

    assert done.returncode == 0, done.stderr
    until((home / "told").exists, 20)
    assert (home / "told").read_text() == f"{SECRET} succeeded gone\n"
    assert who_says(SECRET, "cmdline") == []
    assert not [one for one in who_says(SECRET, "environ") if "grn_zmq.workers" in one]
    assert SECRET not in (home / "env").read_text()
