"""One measurement in a process of its own: samples are written down as they are taken."""

import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from ..lifeline import end_with_parent
from .contender import Contender, Sample
from .echo import Echo
from .figures import ECHO, OURS
from .ours import Ours
from .own import OWN, OwnWork
from .sizes import SIZES, WORKERS, Size
from .works import SHARED


def make_known(name: str) -> Contender:
    """Ours, or the bare echo, which copies no large frame."""
    if name == OURS:
        return Ours()
    assert name == ECHO, name
    return Echo(Path(os.environ["XDG_STATE_HOME"]) / "echo", copy=False)


def shared(row: str, contender: Contender, size: Size) -> Iterator[Sample]:
    """Work that all contenders do, on one that is started for it."""
    contender.start(WORKERS)
    try:
        yield from SHARED[row](contender, size)
    finally:
        contender.stop()


def work_on(name: str, row: str, size: Size) -> Iterator[Sample]:
    own: dict[str, OwnWork] = OWN if name == OURS else {}
    if row in own:
        return own[row](size)
    return shared(row, make_known(name), size)


def main(work: Callable[[str, str, Size], Iterator[Sample]] = work_on) -> None:
    """Take what to measure from the command line: contender, row, size, file, parent."""
    name, row, size, path, parent_pid = sys.argv[1:]
    end_with_parent(int(parent_pid))
    with open(path, "a", encoding="utf-8") as file:
        for sample in work(name, row, SIZES[size]):
            file.write(json.dumps(sample) + "\n")
            file.flush()


if __name__ == "__main__":
    main()
