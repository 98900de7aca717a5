"""One daemon, its files in documented places, and the trail that --debug leaves of it."""

import json
import os
import re
from pathlib import Path

import pytest

from grn_zmq.discovery import find_address, lock_holder
from grn_zmq.paths import find_places
from tests.cli.scripts import Running, run, started
from tests.waiting import until

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("home")]

HOST = ("--devices", "host:1x500MiB", "--max-jobs", "1")
DOCUMENTED = Path(__file__).parents[2] / "docs" / "operations.md"


def test_g33_a_second_daemon_refuses_and_files_are_where_the_documentation_says(
    home: Path,
) -> None:
    begun = run("grn", "start", "--detach", *HOST)
    try:
        second = run("grn", "start", "--detach", *HOST)
        alone = run("grn-broker")
        runtime, state = home / "runtime" / "grn", home / "state" / "grn"
        (log,) = state.glob("grn-*.log")
        documented = DOCUMENTED.read_text()
        paths = re.findall(r"`\$XDG_(RUNTIME_DIR|STATE_HOME)/grn/([\w./]+)`", documented)
        there = [
            (runtime if where == "RUNTIME_DIR" else state) / name.rstrip("/")
            for where, name in paths
            if name != "run" and not name.startswith("parcels")
        ]
        missing = [str(path) for path in there if not path.exists()]
        holder = int((runtime / "broker.lock").read_text())
        listening = json.loads((runtime / "broker.json").read_text())
    finally:
        run("grn", "stop")

    assert begun.returncode == 0, begun.stderr
    assert str(log).encode() in begun.stdout
    for refused in (second, alone):
        assert refused.returncode == 1
        assert f"already running (pid {holder})".encode() in refused.stderr
    assert len(there) >= 6
    assert missing == []
    assert listening["clients"] == f"ipc://{runtime}/clients/broker.sock"
    assert "grn-<hex>.log" in documented
    assert lock_holder(find_places(os.environ)) is None


def test_p26_with_debug_the_log_says_who_waits_and_which_device_it_gets_and_gives_back(
    tmp_path: Path,
) -> None:
    gate = tmp_path / "gate"
    body = f"sh -c 'while [ ! -e {gate} ]; do sleep 0.05; done'"
    with started(*HOST, "--debug") as server:
        until(lambda: find_address(find_places(os.environ)), 20, server.said)
        with Running("grn-run", "--type", "a", body) as first:
            server.until_err("started ")
            with Running("grn-run", "--type", "b", "true") as second:
                until(lambda: server.err.count(" accepted ") == 2, 20, server.said)
                gate.touch()
                assert (first.ended(), second.ended()) == (0, 0)
        until(lambda: server.err.count(" ended ") == 2, 20, server.said)
        log = server.err

    for client in (first, second):
        (waits,) = re.findall(
            rf"^.* DEBUG .* accepted job=(\w+) .*\bpid={client.pid}\b", log, re.M
        )
        for step in ("placed", "ended"):  # leased, and released
            assert re.search(rf" {step} job={waits} .*device=host:0 ", log), log
