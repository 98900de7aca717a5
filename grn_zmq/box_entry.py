"""The first file that an interpreter of an environment runs: `python …/lib/box_entry.py`.

It is copied beside what it needs. Any version of Python must understand it, so that one which
cannot run the function is told from one that is not there.
"""

import os
import sys


def enter(here):  # type: (str) -> None
    """Say which Python this is, and go on if it is the one that is wanted."""
    version = "%d.%d" % sys.version_info[:2]  # noqa: UP031
    with open(os.path.join(here, "python"), "w") as told:
        told.write(version)
    with open(os.path.join(here, "wanted")) as asked:
        fits = asked.read() == version
    if fits:
        from grn_zmq.boxed import main

        main(here)


if __name__ == "__main__":
    enter(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
