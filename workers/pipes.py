"""The pipes that job processes print to."""

import fcntl
import os
from typing import Final

# Large pipes spare the worker most wake-ups; the kernel may refuse (a limit per user).
PIPE_BYTES: Final = 1024 * 1024


def new_pipe() -> tuple[int, int]:
    """Make a pipe: its near end, which does not block, and the far one, which must."""
    near, far = os.pipe()
    os.set_blocking(near, False)
    try:
        fcntl.fcntl(near, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
    except OSError:
        pass
    return near, far
