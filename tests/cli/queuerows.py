"""Queues as the broker tells of them."""

from dataclasses import replace
from typing import Any

from grn_zmq.capacities import parse_capacity
from grn_zmq.facts import QueueRow


def a_queue(name: str = "q1", capacity: str = "{gpu:4,cpu:16}", **changes: Any) -> QueueRow:
    """A queue that nobody uses."""
    declared = parse_capacity(capacity)
    row = QueueRow(name, declared, declared, (), None, False, queued=0, running=0, ended=0)
    return replace(row, **changes)
