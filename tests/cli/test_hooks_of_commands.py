"""`--on-end`: somebody is told when a command has ended, whoever it is."""

import json
from pathlib import Path

import pytest

import grn_zmq as grn
from tests.cli.scripts import run
from tests.waiting import until

pytestmark = pytest.mark.e2e


def test_a_hook_is_told_how_a_command_ended_and_where_its_log_is(
    host_server: grn.Server, home: Path
) -> None:
    told = home / "told"

    hook = f"cat > {told}.part && mv {told}.part {told}"
    done = run("grn", "submit", "--on-end", hook, "--", "sh", "-c", "echo out; exit 3")
    assert done.returncode == 0, done.stderr

    until(told.exists, 20)
    facts = json.loads(told.read_text())
    assert (facts["outcome"], facts["exit_status"]) == ("failed", 3)
    assert facts["command"] == "sh -c 'echo out; exit 3'"
    assert Path(facts["log"]).read_text() == "out\n"
