"""Fixtures that tests with running jobs share."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.scene import Scene


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    """Notes and gates for one test; afterwards no job is left waiting or running."""
    scene = Scene(tmp_path)
    yield scene
    scene.close()
