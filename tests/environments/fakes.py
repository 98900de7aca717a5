"""Played docker, podman and apptainer: they note their words and run the command themselves."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.waiting import until

IMAGE = "lab/tf:1.4"

# A container has the variables it is given by -e, and no others; apptainer passes on all.
PROGRAM = """#!{python}
import json, os, sys, time

place, words = {place!r}, sys.argv[1:]
program = os.path.basename(sys.argv[0])
with open(os.path.join(place, "lines"), "a") as lines:
    lines.write(json.dumps([program, *words]) + "\\n")
if words[0] == "rm":
    name = words[-1]
    open(os.path.join(place, name + ".removed"), "w").close()
    daemon = os.path.exists(os.path.join(place, "daemon"))
    while daemon and not os.path.exists(os.path.join(place, name + ".gone")):
        time.sleep(0.01)
    sys.exit(0 if daemon else 1)
at = words.index({image!r})
switches, command = words[:at], words[at + 1:]
after = lambda *names: [b for a, b in zip(switches, switches[1:]) if a in names]
if program == "apptainer":
    prefix = "APPTAINERENV_"
    inside = {{k: v for k, v in os.environ.items() if not k.startswith(prefix)}}
    inside.update({{k[len(prefix):]: v for k, v in os.environ.items() if k.startswith(prefix)}})
else:
    inside = {{"PATH": os.environ["PATH"]}}
    for text in after("-e"):
        name, equals, value = text.partition("=")
        if equals or name in os.environ:
            inside[name] = value if equals else os.environ[name]
os.chdir(after("-w", "--pwd")[0])
daemon = os.path.join(place, "daemon")
if not os.path.exists(daemon):
    os.execvpe(command[0], command, inside)
name = after("--name")[0]
order = os.path.join(place, name + ".order")
with open(order + ".draft", "w") as draft:
    json.dump([command, inside, os.getcwd()], draft)
os.rename(order + ".draft", order)
while True:
    time.sleep(0.01)
"""


class Programs:
    """A directory of played programs, and what they were called with."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.directory = place / "bin"
        self.directory.mkdir()
        text = PROGRAM.format(python=sys.executable, place=str(place), image=IMAGE)
        for name in ("docker", "podman", "apptainer"):
            path = self.directory / name
            path.write_text(text)
            path.chmod(0o755)

    @property
    def path(self) -> str:
        """What PATH must be for them to be found."""
        return f"{self.directory}:{os.environ['PATH']}"

    def lines(self) -> list[list[str]]:
        """The words of each call so far."""
        path = self.place / "lines"
        return (
            [json.loads(line) for line in path.read_text().splitlines()]
            if path.exists()
            else []
        )

    @contextmanager
    def daemon(self) -> Iterator[list["subprocess.Popen[bytes]"]]:
        """Let containers live below this very process; gives them as they come."""
        (self.place / "daemon").touch()
        containers: list[subprocess.Popen[bytes]] = []
        ended = threading.Event()

        def serve() -> None:
            while not ended.wait(0.01):
                for order in self.place.glob("*.order"):
                    command, inside, cwd = json.loads(order.read_text())
                    order.unlink()
                    containers.append(subprocess.Popen(command, env=inside, cwd=cwd))
                for removed in self.place.glob("*.removed"):
                    removed.unlink()
                    for container in containers:
                        container.kill()
                        container.wait()
                    removed.with_suffix(".gone").touch()

        server = threading.Thread(target=serve)
        server.start()
        try:
            yield containers
        finally:
            ended.set()
            server.join()
            (self.place / "daemon").unlink()
            for container in containers:
                container.kill()
                container.wait()


def until_there(path: Path) -> str:
    until(lambda: path.exists() and path.read_text(), 20, lambda: f"{path} was never written")
    return path.read_text()
