"""Functions that can be imported, for tests of what travels by its name."""

import grn_zmq as grn


def plain(x: int) -> tuple[str, int]:
    return "plain", x


@grn.job()
def decorated(x: int) -> int:
    return x
