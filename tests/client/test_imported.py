"""What a job process tells of its imports."""

import importlib
import sys
import types
from collections.abc import Iterator
from pathlib import Path

import pytest

from grn_zmq.imported import Imported
from tests.workers.warming import install


@pytest.fixture
def imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Imported]:
    """What was told so far: all but the package `heavy` and the user's module `mine`."""
    (tmp_path / "mine.py").write_text("import heavy")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.syspath_prepend(install(tmp_path, "heavy", modules=3))
    before = set(sys.modules)
    found = Imported()
    found.begin()
    yield found
    for name in set(sys.modules) - before:
        del sys.modules[name]


def test_nothing_is_told_of_a_job_that_imported_nothing(imported: Imported) -> None:
    assert imported.news() == {}


def test_what_was_installed_is_told_once_and_what_the_user_edits_never(
    imported: Imported,
) -> None:
    importlib.import_module("mine")

    expected = {"heavy": 1, "heavy.part0": 1, "heavy.part1": 1, "heavy.part2": 1}
    assert imported.news() == {"imported": expected}
    assert imported.news() == {}


def test_what_is_unsafe_before_a_fork_is_not_told(
    imported: Imported, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(install(tmp_path / "more", "polars", modules=1))
    importlib.import_module("polars")

    assert imported.news() == {}


def test_odd_things_among_the_modules_do_no_harm(
    imported: Imported, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "nothing", None)
    monkeypatch.setitem(sys.modules, "odd", object())
    monkeypatch.setitem(sys.modules, "made up", types.ModuleType("made up"))
    monkeypatch.setitem(sys.modules, 5, 6)  # type: ignore[misc]

    assert imported.news() == {}


def test_a_module_that_is_to_be_loaded_lazily_is_not_loaded_for_this(
    imported: Imported,
) -> None:
    from importlib.util import LazyLoader, find_spec, module_from_spec

    spec = find_spec("heavy")
    assert spec is not None
    assert spec.loader is not None
    spec.loader = LazyLoader(spec.loader)
    sys.modules["heavy"] = module = module_from_spec(spec)
    spec.loader.exec_module(module)

    imported.news()

    assert "heavy.part0" not in sys.modules
