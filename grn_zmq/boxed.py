"""Inside the environment of a job: calls the function and leaves the answer in a file.

Run by `box_entry.py`, in an interpreter of the same minor version as the one that made the
function. `boxing.py` is the other side.
"""

import os
import signal
import sys
from pathlib import Path
from typing import Final, NoReturn

import cloudpickle  # noqa: F401  (ours, which made the function; theirs may be another)

from . import answers, channel, frameworks, payload
from .jobcall import answer_of, cap_of, flush, freshen, leave, teach_multiprocessing

# For files of our own, whatever the function has set.
OWN_UMASK: Final = 0o077


def main(directory: str) -> NoReturn:
    """Do the run that lies in this directory, and leave."""
    here = Path(directory)
    packet = channel.read_file(str(here / "run"))
    assert packet is not None
    run = packet.header
    _look_like_the_caller(run, directory)
    header, body = _answer(run, packet.body, (here / "arguments").read_bytes())
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # too late: it has ended by itself
    header |= frameworks.counters()._asdict()
    flush()
    os.umask(OWN_UMASK)
    channel.write_file(str(here / "answer"), header, body.joined())
    leave()


def _look_like_the_caller(run: dict[str, object], directory: str) -> None:
    """Take over what a container does not: modules, arguments, umask, an empty `__main__`."""
    umask, argv, own = run["umask"], run["argv"], run["sys_path"]
    assert isinstance(umask, int)
    assert isinstance(argv, list)
    assert isinstance(own, list)
    os.umask(umask)
    sys.argv = argv
    lib = os.path.join(directory, "lib")
    theirs = [entry for entry in sys.path if entry not in (lib, "", *own)]
    # Ours last: what it is needed for is loaded by now.
    sys.path[:] = [*(entry for entry in own if os.path.exists(entry)), *theirs, lib]
    freshen()
    teach_multiprocessing()


def _answer(run: dict[str, object], function: bytes, arguments: bytes) -> answers.Result:
    try:
        chosen, stand_in = payload.load_function(function)
        if run["stand_in"] and stand_in is not None:
            chosen = stand_in
        return answer_of(chosen, memoryview(arguments), cap_of(run))
    except SystemExit as request:
        return answers.departure(request, run)
    except BaseException as error:
        return answers.failure(error, run)
