"""The smallest program: a function whose calls are jobs.

grn start --detach
python examples/hello.py
"""

import os

import grn_zmq as grn


@grn.job()
def greet(name: str) -> str:
    print(f"in process {os.getpid()} on {os.environ['GRN_DEVICE']}")
    return f"Hello, {name}!"


if __name__ == "__main__":
    print(greet("world"))
