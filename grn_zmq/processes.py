"""What tells a process from a later one with the same pid."""


def process_born(pid: int) -> int:
    """Give when a process started, in ticks since the boot; 0 if there is none."""
    try:
        with open(f"/proc/{pid}/stat", "rb", buffering=0) as stat:
            # The name may contain anything, even ") R 1".
            behind_name = stat.read().rpartition(b")")[2].split()
    except OSError:
        return 0
    # The 22nd of all, and the first two stand before.
    return int(behind_name[19]) if len(behind_name) > 19 else 0
