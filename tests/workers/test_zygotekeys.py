"""Which job processes may come from one zygote."""

from dataclasses import replace
from typing import Any

import pytest

from grn_zmq.context import Context
from workers.zygotekeys import Key, key_of

CONTEXT = Context(
    interpreter="/usr/bin/python3",
    flags=(),
    package_dir="/lib",
    cwd="/home/me",
    sys_path=("/home/me", "/lib/site-packages"),
    argv=("train.py",),
    umask=0o22,
    limits=(),
    environment={"OMP_NUM_THREADS": "1", "PWD": "/home/me", "GRN_JOB_ID": "1"},
)


def a_key(*, bare: bool = False, stamps: tuple[int, ...] = (1,), **changes: Any) -> Key:
    return key_of(replace(CONTEXT, **changes), {"GRN_WORKER": "w"}, stamps, bare=bare)


@pytest.mark.parametrize(
    "changes",
    [
        {"cwd": "/tmp"},
        {"argv": ("other.py",)},
        {"umask": 0o77},
        {"limits": (("RLIMIT_DATA", 1, 1),)},
        {"environment": {"OMP_NUM_THREADS": "1", "PWD": "/tmp", "SSH_TTY": "/dev/pts/1"}},
        {"environment": {"OMP_NUM_THREADS": "1", "GRN_JOB_ID": "2", "GRN_AMOUNT_CPU": "4"}},
    ],
)
def test_what_is_set_in_each_process_does_not_tell_zygotes_apart(
    changes: dict[str, Any],
) -> None:
    assert a_key(**changes) == a_key()


@pytest.mark.parametrize(
    "changes",
    [
        {"interpreter": "/opt/bin/python3"},
        {"flags": ("-O",)},
        {"package_dir": "/other"},
        {"sys_path": ("/lib/site-packages",)},
        {"environment": {"OMP_NUM_THREADS": "2"}},
        {"stamps": (2,)},
        {"bare": True},
    ],
)
def test_what_libraries_may_see_when_they_are_imported_does(changes: dict[str, Any]) -> None:
    assert a_key(**changes) != a_key()


def test_a_zygote_has_none_of_the_variables_of_one_job() -> None:
    assert dict(a_key().environment) == {"OMP_NUM_THREADS": "1", "GRN_WORKER": "w"}


def test_commands_share_a_zygote_whatever_their_path_is() -> None:
    assert a_key(bare=True, sys_path=("/x",)) == a_key(bare=True)
