"""Environments as people write them down: tables, versions, and errors that name the key."""

import sys
from itertools import pairwise
from pathlib import Path

import pytest

from grn_zmq.config import BadSetting
from grn_zmq.environments import Docker, Interpreter, Prefix
from grn_zmq.environments.catalogue import Catalogue, version_key
from grn_zmq.environments.files import read_environments
from grn_zmq.environments.requests import own_entries
from tests.environments.attempts import a_request

TENSORFLOW = """
[environments.tensorflow]
version = "1.4.0"
kind = "docker"
image = "tf:1.4"
shm_size = "8g"
mounts = ["/data", "~/models:/models:ro"]
variables = { TF_CPP_MIN_LOG_LEVEL = "2" }
"""


def written(directory: Path, text: str) -> str:
    path = directory / "lab.toml"
    path.write_text(text)
    return str(path)


def complaint(directory: Path, text: str) -> str:
    with pytest.raises(BadSetting) as caught:
        read_environments(written(directory, text))
    return str(caught.value)


def test_a_table_is_an_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/me")

    found = read_environments(written(tmp_path, f"devices = 'host'\n{TENSORFLOW}"))

    assert found.find("tensorflow") == Docker(
        name="tensorflow",
        version="1.4.0",
        image="tf:1.4",
        shm_size="8g",
        mounts=("/data", "/home/me/models:/models:ro"),
        variables={"TF_CPP_MIN_LOG_LEVEL": "2"},
    )


def test_p17_an_environment_is_offered_with_and_without_its_version(tmp_path: Path) -> None:
    found = read_environments(written(tmp_path, TENSORFLOW))

    offered = {one.name: (one.kind, one.text) for one in found.offers}

    assert offered == {
        "tensorflow-1.4.0": ("docker", "tf:1.4"),
        "tensorflow": ("docker", "tensorflow-1.4.0: tf:1.4"),
    }
    assert found.find("tensorflow-1.4.0") is found.find("tensorflow") is not None


def test_p17_the_plain_name_of_several_versions_means_the_newest(tmp_path: Path) -> None:
    versions = "".join(
        f'[[environments.tf]]\nversion = "{one}"\nkind = "prefix"\ncommand = "run {one}"\n'
        for one in ("1.9", "2.10rc1", "2.9.1")
    )

    found = read_environments(written(tmp_path, versions))

    assert found.names == ["tf", "tf-1.9", "tf-2.10rc1", "tf-2.9.1"]
    newest = found.find("tf")
    assert isinstance(newest, Prefix)
    assert newest.command == ("run", "2.10rc1")


def test_versions_are_ordered_as_people_do() -> None:
    ordered = ["1.4", "1.4.0", "1.9", "1.10", "2.0rc1", "2.0", "2.0.1"]

    assert max(ordered, key=version_key) == "2.0.1"
    assert all(version_key(one) < version_key(two) for one, two in pairwise(ordered))


def test_one_without_version_has_one_name() -> None:
    found = Catalogue([Interpreter(name="tf", python="/opt/tf/bin/python")])

    assert [one.name for one in found.offers] == ["tf"]


@pytest.mark.parametrize(
    ("table", "said"),
    [
        (
            "[environments.tf]\nimage = 'i'",
            "[environments.tf] has no kind: add kind = …, one of",
        ),
        (
            "[environments.tf]\nkind = 'dokcer'",
            "kind = 'dokcer' cannot be: write one of docker, p",
        ),
        ("[environments.tf]\nkind = 3", "kind = 3 cannot be"),
        ("[environments.tf]\nkind = 'docker'", "[environments.tf] has no image: add image = …"),
        (
            "[environments.tf]\nkind = 'docker'\nimage = ''",
            "image = '' cannot be: write the na",
        ),
        (
            "[environments.tf]\nkind = 'docker'\nimage = 'i'\nimge = 'j'",
            "there is no key imge; of kind docker it has kind, version,",
        ),
        (
            "[environments.tf]\nkind = 'docker'\nimage = 'i'\nshm_size = 8",
            "[environments.tf] shm_size = 8 cannot be: write a text, in quotes",
        ),
        (
            "[environments.tf]\nkind = 'docker'\nimage = 'i'\ninit = 'yes'",
            "init = 'yes' cannot be: write true or false",
        ),
        (
            "[environments.tf]\nkind = 'docker'\nimage = 'i'\nmounts = ['data']",
            "mounts = ['data'] cannot be: write a list such as",
        ),
        (
            "[environments.tf]\nkind = 'docker'\nimage = 'i'\nvariables = { A = 1 }",
            "variables = {'A': 1} cannot be: write names and texts",
        ),
        (
            "[environments.tf]\nkind = 'interpreter'",
            "python = 'python3' cannot be: write the path of an interpreter",
        ),
        ("[environments.tf]\nkind = 'prefix'\ncommand = ''", "command = [] cannot be"),
        ("[environments.'a b']\nkind = 'prefix'", "'a b' cannot be a name"),
        (
            "[environments]\ntf = 'docker'",
            "environments.tf = 'docker' cannot be: write a table",
        ),
        ("environments = 3", "environments = 3 cannot be: write tables, [environments.NAME]"),
        (
            "[enviroments.tf]\nkind = 'docker'",
            "has no environments: add a table, [environments.",
        ),
        ("[environments.tf", "is no TOML"),
        (
            "[environments.a]\nversion = '1'\nkind = 'prefix'\ncommand = 'x'\n"
            "[environments.a-1]\nkind = 'prefix'\ncommand = 'y'",
            "two environments are called a-1: give each a version of its own",
        ),
        (
            "[environments.tf]\nkind = 'no_such_module:Kind'",
            "[environments.tf] kind = 'no_such_module:Kind' cannot be imported: ModuleNotFound",
        ),
        (
            "[environments.tf]\nkind = 'pathlib:Path'",
            "kind = 'pathlib:Path': pathlib has no environment with a kind of that name",
        ),
    ],
)
def test_an_error_names_file_table_and_key(tmp_path: Path, table: str, said: str) -> None:
    text = complaint(tmp_path, table)

    assert said in text
    assert str(tmp_path / "lab.toml") in text
    assert "\n" not in text


def test_a_file_that_is_not_there_is_named() -> None:
    with pytest.raises(
        BadSetting, match=r"--environments /no/lab\.toml cannot be read: No such"
    ):
        read_environments("/no/lab.toml")


def test_no_file_offers_nothing() -> None:
    assert read_environments("").offers == ()


NIX = """
from dataclasses import dataclass
from typing import ClassVar

from grn_zmq.environments import Environment, Request


@dataclass(frozen=True, kw_only=True)
class Nix(Environment):
    kind: ClassVar[str] = "nix"
    flake: str

    def words(self, request: Request) -> list[str]:
        return ["nix", "develop", self.flake, "--command"]
"""


def test_p23_a_new_kind_is_a_small_class_with_a_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "lab_kinds.py").write_text(NIX)
    monkeypatch.syspath_prepend(str(tmp_path))
    table = "[environments.tf]\nkind = 'lab_kinds:Nix'\nflake = '.#tf'\nversion = '2'"

    found = read_environments(written(tmp_path, table))

    assert [(one.name, one.kind) for one in found.offers] == [("tf-2", "nix"), ("tf", "nix")]
    nix = found.find("tf")
    assert nix is not None
    assert nix.words(a_request()) == ["nix", "develop", ".#tf", "--command"]
    assert nix.farewell(a_request()) == []
    sys.modules.pop("lab_kinds")


def test_only_a_users_own_modules_reach_another_interpreter() -> None:
    path = [
        "",
        "/home/me/work",
        "/usr/lib/python311.zip",
        "/usr/lib/python3.11",
        "/usr/lib/python3.11/lib-dynload",
        "/home/me/work/.venv/lib/python3.11/site-packages",
        "/home/me/library/src",
        "/usr/lib/python3/dist-packages",
    ]

    assert own_entries(path) == ["/home/me/work", "/home/me/library/src"]
