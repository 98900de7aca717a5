"""The smallest program with a job: it says hello, from a process of its own."""

import grn_zmq as grn

from .starts import HELLO


def greet() -> str:
    return HELLO


def main() -> None:
    print(grn.job(greet)(), flush=True)


if __name__ == "__main__":
    main()
