"""Hooks at the end of jobs: which are asked for, and that they are run and not waited for."""

import http.server
import json
import threading
from pathlib import Path
from typing import Any

import pytest

from broker.effects import Hook
from broker.hooks import MOST_AT_ONCE, Hooks
from broker.settings import Settings
from grn_zmq import wire
from grn_zmq.hook import variables
from tests.broker.machine import CLIENT, Machine
from tests.builders import MIB, a_spec, an_id
from tests.waiting import PATIENCE, until

FACTS: dict[str, Any] = {"job_id": an_id(1), "number": 7, "outcome": "failed", "exit_status": 3}


def hooks_of(machine: Machine) -> list[Hook]:
    return [effect for effect in machine.all_effects if isinstance(effect, Hook)]


def test_the_end_of_a_job_with_a_hook_is_told_with_its_facts() -> None:
    machine = Machine(1000)
    machine.submit(a_spec(1, on_end="notify", title="python fit.py", name="night"))
    machine.run(1, peak=70, outcome="failed", exit_status=3, error_text="boom")

    (hook,) = hooks_of(machine)

    assert hook.command == "notify"
    assert hook.facts["number"] == 1
    assert hook.facts["job_name"] == "night"
    assert hook.facts["command"] == "python fit.py"
    assert (hook.facts["outcome"], hook.facts["exit_status"]) == ("failed", 3)
    assert hook.facts["peak_bytes"] == 70 * MIB
    assert hook.facts["error"] == "boom"


def test_the_setting_is_a_hook_of_every_job_and_runs_once_beside_that_of_the_job() -> None:
    machine = Machine(1000, settings=Settings(on_end="all"))
    machine.submit(a_spec(1), a_spec(2, on_end="mine"), a_spec(3, on_end="all"))

    machine.say(CLIENT, wire.Cancel((an_id(2), an_id(3)), interrupt=False))

    assert [(one.command, one.facts["number"]) for one in hooks_of(machine)] == [
        ("mine", 2),
        ("all", 2),
        ("all", 3),
    ]


def test_an_attempt_that_is_not_the_last_is_no_end() -> None:
    machine = Machine(1000)
    machine.submit(a_spec(1, on_end="notify", retries=1))

    machine.run(1, outcome="failed", exit_status=3)

    assert not hooks_of(machine)


def test_facts_become_variables() -> None:
    assert variables({"peak_bytes": 5, "signal": None, "command": "a\0b"}) == {
        "GRN_PEAK_BYTES": "5",
        "GRN_SIGNAL": "",
        "GRN_COMMAND": "ab",
    }


@pytest.mark.e2e
def test_a_command_gets_the_facts_in_both_ways(tmp_path: Path) -> None:
    log = tmp_path / f"{an_id(1)}.log"
    log.write_text("printed")
    hooks = Hooks(tmp_path)

    hooks.add(
        Hook(f"cat > {tmp_path}/json; echo $GRN_OUTCOME $GRN_LOG > {tmp_path}/env", FACTS)
    )
    hooks.close()

    assert json.loads((tmp_path / "json").read_text()) == {**FACTS, "log": str(log)}
    assert (tmp_path / "env").read_text() == f"failed {log}\n"
    assert hooks.idle


@pytest.mark.e2e
def test_a_hook_that_hangs_holds_up_nobody_and_is_ended_with_the_broker(tmp_path: Path) -> None:
    hooks = Hooks(tmp_path)
    for _ in range(MOST_AT_ONCE):
        hooks.add(Hook(f"echo >> {tmp_path}/begun; exec sleep 1000", FACTS))
    hooks.add(Hook(f"touch {tmp_path}/next", FACTS))
    begun = tmp_path / "begun"
    until(lambda: begun.exists() and len(begun.read_text()) == MOST_AT_ONCE, 10 * PATIENCE)

    hooks.close()

    assert not (tmp_path / "next").exists()


@pytest.mark.e2e
def test_a_url_is_posted_to(tmp_path: Path) -> None:
    posted: list[Any] = []

    class Answer(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            posted.append((self.headers["Content-Type"], json.loads(body)))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: object) -> None: ...

    with http.server.HTTPServer(("127.0.0.1", 0), Answer) as server:
        thread = threading.Thread(target=server.handle_request)
        thread.start()
        hooks = Hooks(tmp_path)
        hooks.add(Hook(f"http://127.0.0.1:{server.server_port}/ended", FACTS))
        hooks.close()
        thread.join(10 * PATIENCE)

    assert posted == [("application/json", {**FACTS, "log": None})]
