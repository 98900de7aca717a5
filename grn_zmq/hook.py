"""Runs one hook at the end of a job, in a process of its own: a command, or a post to a URL.

    python -m grn_zmq.hook < {"hook": "notify-send …", "facts": {…}}

The command gets the facts as JSON on its standard input and as variables `GRN_…`; the URL gets
the JSON. Nobody waits for it; what goes wrong is one line on standard error, the broker's log.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from typing import Any, Final

from .hooktexts import is_url

# A hook that takes longer is ended: it was to tell somebody, not to work.
COMMAND_S: Final = 60.0
POST_S: Final = 15.0
# The command may hold a secret, and anybody can read the words that a shell was given.
_HOOK: Final = "GRN_HOOK"
_UNSEEN: Final = f'eval "unset {_HOOK}; ${_HOOK}"'
# As jobs know it by.
_NAMES: Final = {"number": "job_number"}


def main() -> None:
    asked = json.load(sys.stdin)
    hook, facts = str(asked["hook"]), dict(asked["facts"])
    try:
        if is_url(hook):
            post(hook, facts)
        else:
            run(hook, facts)
    except Exception as error:
        print(f"grn: the hook of job {facts['number']} failed: {error}", file=sys.stderr)
        sys.stderr.flush()
        if os.getpgrp() == os.getpid():  # with all that it may have left running
            os.killpg(0, signal.SIGKILL)
        sys.exit(1)


def post(url: str, facts: Mapping[str, Any]) -> None:
    """Send the facts as JSON.

    Raises:
        OSError: Nobody answers there, or with an error.
    """
    from urllib.request import Request, urlopen

    headers = {"Content-Type": "application/json", "User-Agent": "grn"}
    request = Request(url, json.dumps(facts).encode(), headers)
    with urlopen(request, timeout=POST_S) as answer:
        answer.read(1)


def run(command: str, facts: Mapping[str, Any]) -> None:
    """Run the command by a shell.

    Raises:
        RuntimeError: It took too long, or left with another status than 0.
    """
    child = subprocess.Popen(
        ["/bin/sh", "-c", _UNSEEN],
        stdin=subprocess.PIPE,
        env={**os.environ, **variables(facts), _HOOK: command},
    )
    try:
        child.communicate(f"{json.dumps(facts)}\n".encode(), timeout=COMMAND_S)
    except subprocess.TimeoutExpired:
        child.kill()
        raise RuntimeError(f"it took longer than {COMMAND_S:.0f} s and was ended") from None
    if child.returncode:
        raise RuntimeError(f"its status is {child.returncode}")


def variables(facts: Mapping[str, Any]) -> dict[str, str]:
    """`{"peak_bytes": 5}` as `GRN_PEAK_BYTES=5`; what is not known is empty."""
    return {
        f"GRN_{_NAMES.get(name, name).upper()}": "" if value is None else _text(value)
        for name, value in facts.items()
    }


def _text(value: object) -> str:
    return str(value).replace("\0", "")


if __name__ == "__main__":
    main()
