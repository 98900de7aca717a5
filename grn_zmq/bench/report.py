"""All of a run as facts: every sample, the versions, and what was judged."""

import os
import platform
from collections.abc import Sequence
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import Any, Final

import zmq

from .claims import Judged
from .figures import Book
from .sizes import Size

PACKAGES: Final = ("grn-zmq", "pyzmq", "msgpack", "cloudpickle", "numpy", "torch")


def versions(packages: Sequence[str] = PACKAGES) -> dict[str, str]:
    """What is installed of these, and what it all runs on."""
    found = {"python": platform.python_version(), "libzmq": zmq.zmq_version()}
    for package in packages:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def facts(
    book: Book, judged: Sequence[Judged], size: Size, packages: Sequence[str] = PACKAGES
) -> dict[str, Any]:
    return {
        "size": size.name,
        "cores": len(os.sched_getaffinity(0)),
        "versions": versions(packages),
        "payload": "array" if find_spec("numpy") else "bytes",
        "missing": book.missing,
        "claims": [
            {
                "row": one.claim.row,
                "text": one.claim.text,
                "seen": one.seen,
                "unit": one.claim.unit,
                "must": one.claim.must,
                "aim": one.claim.aim,
                "at_most": one.claim.at_most,
                "verdict": one.verdict,
            }
            for one in judged
        ],
        "measured": [asdict(one) for one in book.measured],
    }
