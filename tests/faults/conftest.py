"""One system for all faults of a module: each leaves it settled."""

from collections.abc import Iterator

import pytest

from tests.faults.harness import System


@pytest.fixture(scope="module")
def system() -> Iterator[System]:
    with System() as made:
        yield made
