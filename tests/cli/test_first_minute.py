"""A newcomer's first minute, typed into a real terminal: install, start, submit, look, stop."""

import os
import shutil
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.cli.scripts import run
from tests.waiting import PATIENCE, processes_marked, until

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(shutil.which("tmux") is None, reason="there is no tmux"),
]

ROOT: Final = Path(__file__).parents[2]
PARTS: Final = ("grn_zmq", "broker", "workers", "pyproject.toml", "README.md", "LICENSE")
INSTALL_S: Final = 120.0
# Some output on both streams; with a second word it goes on until such a file is there.
TRAIN: Final = """\
import os, sys, time
kept = bytearray(20 << 20)
for epoch in range(3):
    print("epoch", epoch, "of", sys.argv[1], flush=True)
while sys.argv[2:] and not os.path.exists(sys.argv[2]):
    time.sleep(0.05)
print("done", file=sys.stderr)
"""


class Terminal:
    """A shell in tmux: keys go in, the screen comes out."""

    def __init__(self, directory: Path) -> None:
        self._socket = f"minute-{uuid.uuid4().hex[:12]}"
        self.tmux("new-session", "-d", "-x", "110", "-y", "40", "-c", str(directory), "sh")
        self.type("PS1='ready> '; clear")
        self.until("ready>")

    def tmux(self, *words: str) -> str:
        done = subprocess.run(
            ["tmux", "-L", self._socket, "-f", os.devnull, *words],
            capture_output=True,
            text=True,
            check=True,
            timeout=20 * PATIENCE,
        )
        return done.stdout

    def type(self, line: str) -> None:
        self.tmux("send-keys", "-l", line)
        self.tmux("send-keys", "Enter")

    def press(self, key: str) -> None:
        self.tmux("send-keys", key)

    @property
    def screen(self) -> str:
        return self.tmux("capture-pane", "-p")

    def until(self, text: str, seconds: float = 20.0) -> None:
        until(lambda: text in self.screen, seconds, lambda: f"no {text!r} in:\n{self.screen}")

    def run(self, line: str, seconds: float = 20.0) -> str:
        """Type a command on an empty screen, wait for its end, and give what it left there."""
        self.type("clear")
        mark = uuid.uuid4().hex[:8]
        self.type(f"{line}; echo status $? {mark[:4]}''{mark[4:]}")
        self.until(mark, seconds)
        return self.screen

    def close(self) -> None:
        self.tmux("kill-server")


@pytest.fixture
def terminal(home: Path) -> Iterator[Terminal]:
    source = home / "source"
    source.mkdir()
    for part in PARTS:
        copy = shutil.copytree if (ROOT / part).is_dir() else shutil.copy
        copy(ROOT / part, source / part)
    (home / "train.py").write_text(TRAIN)
    made = Terminal(home)
    yield made
    made.close()
    run("grn", "stop")  # in case the test did not come so far


def test_a_newcomer_gets_along_and_leaves_nothing_running(terminal: Terminal) -> None:
    python = sys.executable
    assert "status 0" in terminal.run(
        f"{python} -m venv v && v/bin/pip install -q ./source 2>pip.log", INSTALL_S
    )
    terminal.run(". v/bin/activate")

    started = terminal.run("grn start --detach --devices host:2x300MiB")
    assert "status 0" in started
    assert "Managing host devices {0, 1}" in started
    for name in ("first", "second"):
        submitted = terminal.run(f"grn submit -- python train.py {name}")
        assert "Submitted job" in submitted
    listed = terminal.run("grn ps --all")
    assert "python train.py" in listed
    assert "status 0" in listed
    followed = terminal.run("grn logs -f @")
    assert "epoch 2 of second" in followed
    assert "done" in followed

    terminal.run("grn submit --quiet -- python train.py third enough")
    terminal.type("clear; grn top")
    terminal.until("grn top")
    terminal.until("host:0")
    terminal.until("python train.py third")
    shown = terminal.screen
    assert "host:1" in shown
    assert "running" in shown or "starting" in shown
    terminal.press("q")
    terminal.until("ready>")
    assert "host:1" not in terminal.run("true")  # the first screen is back

    assert "succeeded" in terminal.run("touch enough; grn wait @ && grn show @")
    stopped = terminal.run("grn stop")
    assert "Stopped the broker" in stopped
    assert "status 0" in stopped
    left = processes_marked("GRN_TEST_RUN", os.environ["GRN_TEST_RUN"]).values()
    assert [one for one in left if not one.startswith(("tmux ", "sh "))] == []
