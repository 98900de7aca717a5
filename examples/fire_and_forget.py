"""Hand jobs over for good, and ask for their results later from another process.

grn start --detach
python examples/fire_and_forget.py 2 3 5 > ids      # returns at once
python examples/fire_and_forget.py --collect < ids  # waits for the results
"""

import sys
import time

import grn_zmq as grn


@grn.job(name="slow square")
def square(number: float) -> float:
    time.sleep(1)
    return number * number


def spawn(numbers: list[float]) -> None:
    """Return as soon as the broker has the jobs; they outlive this process."""
    for job_id in square.spawn_map(numbers):
        print(job_id)


def collect(job_ids: list[str]) -> None:
    """Wait for jobs that any process of this user has spawned."""
    for job_id in job_ids:
        print(grn.attach(job_id).result())


if __name__ == "__main__":
    if sys.argv[1:] == ["--collect"]:
        collect(sys.stdin.read().split())
    else:
        spawn([float(word) for word in sys.argv[1:] or ["2", "3", "5"]])
