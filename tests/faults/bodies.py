"""What the jobs of the fault suite do: a line for each start and each finish, and a value."""

import os
import time
from pathlib import Path

import grn_zmq as grn


def note(ledger: str, what: str) -> None:
    """Append one line, whole: many processes write here, and any of them may be killed."""
    job_id, attempt = os.environ["GRN_JOB_ID"], os.environ["GRN_ATTEMPT"]
    fd = os.open(ledger, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        os.write(fd, f"{what} {job_id} {attempt} {os.getpid()}\n".encode())
    finally:
        os.close(fd)


@grn.job(oom_retries=0)
def work(ledger: str, number: int, seconds: float, fails: bool, gate: str) -> int:
    """Take so long, or until the gate is there; then give the square, or fail."""
    note(ledger, "start")
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline or (gate and not Path(gate).exists()):
        time.sleep(0.02)
    note(ledger, "finish")
    if fails:
        raise ValueError(number)
    return number * number
