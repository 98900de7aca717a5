"""Fixtures that tests of leases share."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from grn_zmq import leased
from tests.client.scripted import a_broker
from tests.leases.played import VARIABLES, Played


@pytest.fixture
def played(home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Played]:
    for name in (*VARIABLES, "GRN_JOB_ID"):
        monkeypatch.delenv(name, raising=False)
    with a_broker() as broker:
        played = Played(broker)
        yield played
        played.close()
        leased._current.clear()
