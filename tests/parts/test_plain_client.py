"""The client that knows nothing but docs/protocol.md: short, and good for a lease."""

import ast
import json
import os
import signal
import subprocess
import sys
from contextlib import ExitStack
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from grn_zmq import wire
from grn_zmq.records import JobSpec
from tests.cli.scripts import Running, run
from tests.waiting import PATIENCE, until

pytestmark = pytest.mark.e2e

PROGRAM = Path(__file__).parents[2] / "examples" / "plain_client.py"
LINES = PROGRAM.read_text().splitlines()
MOST_LINES = 60


def imported() -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(PROGRAM.read_text())):
        if isinstance(node, ast.Import):
            found |= {one.name.partition(".")[0] for one in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add((node.module or "").partition(".")[0])
    return found


def test_s29_it_has_less_than_sixty_lines_and_needs_only_a_socket_and_msgpack() -> None:
    written = [line for line in LINES if line.strip() and not line.strip().startswith("#")]

    assert len(written) < MOST_LINES
    assert imported() - set(sys.stdlib_module_names) == {"zmq", "msgpack"}


def test_s29_it_speaks_this_version_and_names_every_field_in_order() -> None:
    (told,) = (
        node.value
        for node in ast.parse(PROGRAM.read_text()).body
        if isinstance(node, ast.AnnAssign)
    )

    assert isinstance(told, ast.Call)
    assert [one.arg for one in told.keywords] == [one.name for one in fields(JobSpec)]
    assert f'"hello", {wire.PROTOCOL},' in PROGRAM.read_text()


def plain_client(*words: str) -> Running:
    return Running(sys.executable, str(PROGRAM), *words)


def jobs() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(run("grn", "ps", "--json").stdout)
    return found


@pytest.mark.usefixtures("gpu_server")
def test_s29_it_leases_a_gpu_and_gives_it_back() -> None:
    with ExitStack() as stack:
        first, second = (stack.enter_context(plain_client("600")) for _ in range(2))
        for holder in (first, second):
            holder.until_out("is ours:")
        third = stack.enter_context(plain_client("0.1"))
        until(lambda: [one["state"] for one in jobs()].count("queued") == 1, 20, third.said)
        devices = {one.out.split()[0] for one in (first, second)}
        shown = [dict(word.split("=", 1) for word in one.out.split()[3:]) for one in (first,)]

        assert devices == {"nvml:0", "nvml:1"}
        assert shown[0]["CUDA_VISIBLE_DEVICES"].startswith("GPU-")
        assert shown[0]["GRN_DEVICE"] in devices

        first.process.send_signal(signal.SIGKILL)

        assert third.ended() == 0, third.said()
        assert third.out.endswith("given back\n")
        second.process.send_signal(signal.SIGKILL)
    until(lambda: not jobs(), 10, lambda: f"{jobs()}")


@pytest.mark.usefixtures("gpu_server")
def test_s29_it_waits_for_enter() -> None:
    done = subprocess.run(
        [sys.executable, str(PROGRAM)],
        input=b"\n",
        capture_output=True,
        timeout=40 * PATIENCE,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert b"is ours: " in done.stdout


def test_without_a_broker_it_says_so(tmp_path: Path) -> None:
    environment = {**os.environ, "XDG_RUNTIME_DIR": str(tmp_path), "GRN_NAME": "none"}
    words = [sys.executable, str(PROGRAM), "1"]

    done = subprocess.run(words, capture_output=True, env=environment, check=False)

    assert done.returncode == 1
    assert done.stderr == f"no broker is running in {tmp_path / 'grn-none'}\n".encode()
