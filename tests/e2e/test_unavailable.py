"""No broker, and one that is dead."""

import asyncio
import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from loguru import logger

import grn_zmq as grn
from grn_zmq.paths import find_places
from tests.conftest import forget_client
from tests.e2e.scripts import broker_pid, run_script, write_script
from tests.waiting import PATIENCE

pytestmark = pytest.mark.e2e

SOON_S = 1.5


@grn.job()
def double(n: int) -> int:
    return 2 * n


@pytest.fixture(params=["missing", "stale address", "stale lock", "both stale", "junk"])
def nobody(home: Path, request: pytest.FixtureRequest) -> Iterator[str]:
    """A place where no broker is, however it may look."""
    forget_client()
    places = find_places(os.environ)
    places.directory.mkdir(mode=0o700, exist_ok=True)
    facts = {
        "pid": 2**22 - 7,
        "supervisor_pid": 2**22 - 7,
        "clients": f"ipc://{places.clients_socket}",
        "workers": f"ipc://{places.workers_socket}",
    }
    if request.param in ("stale address", "both stale"):
        places.address.write_text(json.dumps(facts))
    if request.param in ("stale lock", "both stale"):
        places.lock.write_text("4194297")
    if request.param == "junk":
        places.address.write_text("{not json")
    yield request.param
    places.address.unlink(missing_ok=True)
    places.lock.unlink(missing_ok=True)


def test_r18_without_a_broker_the_call_says_how_to_start_one(nobody: str) -> None:
    for use in (
        lambda: double(1),
        lambda: double.submit(1),
        lambda: double.spawn(1),
        lambda: double.map([1]),
        lambda: grn.attach("0" * 32),
        lambda: grn.Executor().submit(abs, 1),
        lambda: double.with_options(inline=True)(1),
    ):
        started = time.monotonic()
        with pytest.raises(
            grn.BrokerUnavailable, match=r"`grn start` \(or `grn-start`\)"
        ) as no:
            use()
        assert time.monotonic() - started < SOON_S * PATIENCE
        assert isinstance(no.value, ConnectionError)


def test_r18_a_script_without_a_broker_fails_soon(home: Path, tmp_path: Path) -> None:
    script = write_script(tmp_path / "f.py", "@grn.job()\ndef f(): pass\nf()")

    started = time.monotonic()
    done = run_script(script)

    assert time.monotonic() - started < (SOON_S + 0.5) * PATIENCE
    assert done.returncode == 1
    assert "BrokerUnavailable: no broker is running" in done.stderr.splitlines()[-1]
    assert "grn-start" in done.stderr.splitlines()[-1]
    assert "connection.py" not in done.stderr
    assert done.stderr.count("  File ") <= 4


@pytest.mark.parametrize(
    "options",
    [
        "continue_on_server_unavailable=True",
        "when_unavailable='local'",
        "when_unavailable='local', inline=True",
    ],
)
def test_r17_a_job_that_may_runs_here_with_one_warning(
    home: Path, tmp_path: Path, options: str
) -> None:
    script = write_script(
        tmp_path / "f.py",
        f"""
        import os, time
        started = time.monotonic()

        @grn.job({options})
        def f(n):
            return n, os.getpid()

        assert f(3) == (3, os.getpid())
        assert time.monotonic() - started < {SOON_S * PATIENCE}
        print("ran")
        """,
    )

    done = run_script(script)

    assert done.stdout == "ran\n", done.stderr
    assert done.stderr.count("WARNING") == 1
    assert "no broker is running" in done.stderr


def test_r17_async_and_generator_jobs_run_here_too(home: Path) -> None:
    forget_client()

    @grn.job(when_unavailable="local")
    async def later() -> int:
        return os.getpid()

    numbers = grn.job(inline=True, when_unavailable="local")(range_of)

    assert asyncio.run(later()) == os.getpid()
    assert list(numbers(3)) == [0, 1, 2]


def range_of(count: int) -> Iterator[int]:
    yield from range(count)


def test_local_needs_no_broker(home: Path) -> None:
    assert double.local(4) == 8


def test_a_client_finds_the_next_broker(home: Path) -> None:
    with grn.start("host:1x500MiB"):
        assert double(4) == 8
    with grn.start("host:1x500MiB"):
        assert double(5) == 10
        forget_client()


def test_r98_an_inline_job_returns_though_its_broker_died_for_good(home: Path) -> None:
    warned: list[str] = []
    sink = logger.add(warned.append, level="WARNING", format="{message}")

    @grn.job(inline=True)
    def survives(server: grn.Server) -> str:
        for pid in (server.pid, broker_pid()):
            os.kill(pid, signal.SIGKILL)
        return "its value"

    with grn.start("host:1x500MiB") as server:
        started = time.monotonic()
        try:
            assert survives(server) == "its value"
        finally:
            logger.remove(sink)
            forget_client()

    assert time.monotonic() - started < 10 * PATIENCE
    assert any("the broker is gone" in line for line in warned)
