"""The kernel's counter of the most memory a process has held."""

from typing import Final

# Writing this to clear_refs sets the peak counter back to the present size.
_RESET: Final = "5"

# What a run may take without anybody having to look twice.
NEGLIGIBLE_BYTES: Final = 1 << 20


def reset_peak(pid: int | str = "self") -> None:
    """Let the counter begin anew, so that the next job's peak is its own."""
    try:
        with open(f"/proc/{pid}/clear_refs", "w") as clear_refs:
            clear_refs.write(_RESET)
    except OSError:
        pass  # it is ending, or the kernel lacks it: the peak then covers its whole life
