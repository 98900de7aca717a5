"""A broker may have a name: then everything it keeps is kept apart."""

import os
from pathlib import Path

import pytest

from grn_zmq.cli.hosting.unitfile import carried, unit_name, unit_path
from grn_zmq.config import BadSetting
from grn_zmq.parcels import find_parcels
from grn_zmq.paths import (
    MAX_BROKER_NAME,
    broker_name,
    claims_directory,
    find_places,
    logs_directory,
    state_directory,
    state_file,
    use_name,
)
from workers.spool import spool_directory


def environ(tmp_path: Path, name: str = "") -> dict[str, str]:
    runtime = tmp_path / "r"
    runtime.mkdir(exist_ok=True)
    homes = {"XDG_RUNTIME_DIR": str(runtime), "XDG_STATE_HOME": str(tmp_path / "s")}
    return {**homes, "GRN_NAME": name} if name else homes


def test_without_a_name_all_is_as_ever(tmp_path: Path) -> None:
    here = environ(tmp_path)

    assert find_places(here).directory == tmp_path / "r" / "grn"
    assert state_directory(here) == tmp_path / "s" / "grn"
    assert find_places({**here, "GRN_NAME": ""}) == find_places(here)
    assert unit_name(here) == "grn"


def test_r71_brokers_of_different_names_share_no_directory(tmp_path: Path) -> None:
    brokers = [environ(tmp_path, name) for name in ("", "a", "b")]

    for kept in (
        lambda one: find_places(one).directory,
        lambda one: find_places({**one, "XDG_RUNTIME_DIR": ""}).directory,
        state_file,
        logs_directory,
        lambda one: spool_directory(state_directory(one), "host-0"),
        lambda one: find_parcels(one).shm,
        lambda one: find_parcels(one).disk,
        lambda one: unit_path(one, tmp_path),
    ):
        assert len({kept(one) for one in brokers}) == 3

    assert find_places(brokers[1]).directory == tmp_path / "r" / "grn-a"
    assert state_directory(brokers[2]) == tmp_path / "s" / "grn-b"


def test_only_what_gpus_are_taken_is_known_to_all_of_them(tmp_path: Path) -> None:
    places = {claims_directory(environ(tmp_path, name)) for name in ("", "a", "devices")}

    assert len(places) == 1
    assert places.isdisjoint({find_places(environ(tmp_path, "devices")).directory})


@pytest.mark.parametrize("name", ["a", "GPU-0_1.x", "-", "..", "x" * MAX_BROKER_NAME])
def test_a_name_may_have_letters_digits_and_three_signs(name: str) -> None:
    assert broker_name({"GRN_NAME": name}) == name


@pytest.mark.parametrize("name", ["a/b", "a b", "ä", "a\n", "x" * (MAX_BROKER_NAME + 1)])
def test_another_name_is_refused_with_what_may_be_written(name: str) -> None:
    with pytest.raises(BadSetting) as refused:
        find_places({"GRN_NAME": name, "XDG_RUNTIME_DIR": "/tmp"})

    assert f"GRN_NAME={name} cannot be" in str(refused.value)
    assert "letters, digits, -, _ and ., at most 32" in str(refused.value)


def test_a_name_that_was_said_counts_for_all_that_is_started(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("GRN_NAME", "by-variable")

    use_name(None)
    assert os.environ["GRN_NAME"] == "by-variable"
    use_name("by-flag")
    assert os.environ["GRN_NAME"] == "by-flag"
    with pytest.raises(BadSetting, match="--name a/b cannot be"):
        use_name("a/b")


def test_a_service_is_named_as_its_broker_and_knows_the_name() -> None:
    named, home = {"GRN_NAME": "night"}, Path("/home/ada")

    assert unit_path(named, home).name == "grn-night.service"
    assert carried(named, home, 1000) == named
