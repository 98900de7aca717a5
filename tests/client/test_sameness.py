"""A function is pickled again whenever it could have changed, and only then."""

import os
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cloudpickle
import pytest

import grn_zmq as grn
from grn_zmq import describing, submission
from grn_zmq.payload import dump_function, load_function
from grn_zmq.templates import Template
from tests.client import worked

PROGRAM = """
import math
import os.path
from collections import OrderedDict

FACTOR = 2
NAMES = ("a", ("b", 3.0))

def helper(x, plus=1):
    return x * FACTOR + plus

def above(x):
    return helper(x)

def work(x: "int", y=10, *, z=100) -> OrderedDict | None:
    return [above(x), y, z, math.floor(1.5), os.path.sep, NAMES, len(NAMES)]

def stand_in(x):
    return FACTOR

def outer():
    kept = 5
    def inner(x):
        return kept + x
    def change(value):
        nonlocal kept
        kept = value
    return inner, change
inner, change = outer()

def recursive(x):
    return 1 if x < 1 else recursive(x - 1)
"""


class Counted:
    """How often a function was pickled."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        dump = dump_function

        def counting(*args: Any) -> bytes:
            self.count += 1
            return dump(*args)

        monkeypatch.setattr(submission, "dump_function", counting)


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Counted:
    return Counted(monkeypatch)


@pytest.fixture
def main() -> types.SimpleNamespace:
    """The names of a script: what is defined in it travels by value."""
    main = types.SimpleNamespace(__name__="__main__", __file__=__file__)
    exec(PROGRAM, main.__dict__)
    return main


def template(job: Any, *args: Any, detached: bool = False) -> Template:
    return describing.describer_of(job).template(args, {}, detached=detached)


def result(job: Any, *args: Any) -> Any:
    """What the function does where it was unpickled."""
    function, _ = load_function(template(job, *args).blobs[0].data)
    return function(*args)


def proved(job: Any, *args: Any) -> Template:
    """Call so often that the function is known not to change by itself."""
    for _ in range(5):
        last = template(job, *args)
    return last


@pytest.mark.parametrize("name", ["work", "inner", "recursive", "above"])
def test_what_cannot_change_is_pickled_once(
    main: types.SimpleNamespace, counted: Counted, name: str
) -> None:
    job = grn.job(getattr(main, name))
    first = proved(job, 1)
    before = counted.count

    assert all(template(job, 1) is first for _ in range(100))
    assert counted.count == before


def test_what_can_be_imported_is_pickled_once(counted: Counted) -> None:
    first = proved(worked.decorated, 1)
    before = counted.count

    assert all(template(worked.decorated, 1) is first for _ in range(100))
    assert counted.count == before


def change_global(main: types.SimpleNamespace) -> None:
    main.FACTOR = 3


def change_tuple(main: types.SimpleNamespace) -> None:
    main.NAMES = ("other",)


def change_default(main: types.SimpleNamespace) -> None:
    main.work.__defaults__ = (11,)


def change_keyword_default(main: types.SimpleNamespace) -> None:
    main.work.__kwdefaults__["z"] = 101


def change_default_of_helper(main: types.SimpleNamespace) -> None:
    main.helper.__defaults__ = (7,)


def change_code_of_helper(main: types.SimpleNamespace) -> None:
    main.helper.__code__ = (lambda x, plus=1: 77).__code__


def replace_helper(main: types.SimpleNamespace) -> None:
    main.helper = lambda x: -x


def replace_helper_of_helper(main: types.SimpleNamespace) -> None:
    main.above = lambda x: "above"


def shadow_builtin(main: types.SimpleNamespace) -> None:
    main.len = lambda x: "shadowed"


@pytest.mark.parametrize(
    "change",
    [
        change_global,
        change_tuple,
        change_default,
        change_keyword_default,
        change_default_of_helper,
        change_code_of_helper,
        replace_helper,
        replace_helper_of_helper,
        shadow_builtin,
    ],
)
def test_what_was_changed_is_never_stale(
    main: types.SimpleNamespace, change: Callable[[types.SimpleNamespace], None]
) -> None:
    job = grn.job(main.work)
    before = proved(job, 1)

    change(main)

    assert template(job, 1) is not before
    assert result(job, 1) == main.work(1)


def test_a_changed_closure_is_never_stale(main: types.SimpleNamespace) -> None:
    job = grn.job(main.inner)
    assert result(job, 1) == 6
    proved(job, 1)

    main.change(50)

    assert result(job, 1) == 51


def test_a_variable_that_was_unbound_is_seen_when_it_is_bound(
    main: types.SimpleNamespace,
) -> None:
    del main.FACTOR
    job = grn.job(main.above)
    proved(job, 1)

    main.FACTOR = 4

    assert result(job, 1) == 5


def test_attributes_of_a_function_are_never_stale(main: types.SimpleNamespace) -> None:
    job = grn.job(main.above)
    main.helper.state = 1
    proved(job, 1)

    for value in (2, "two", [3]):
        main.helper.state = value
        function, _ = load_function(template(job, 1).blobs[0].data)
        assert function.__globals__["helper"].state == value
    main.work.new = "new"
    main.helper.state.append(4)

    function, _ = load_function(template(job, 1).blobs[0].data)
    assert function.__globals__["helper"].state == [3, 4]


def test_the_first_attribute_of_a_function_is_seen(main: types.SimpleNamespace) -> None:
    job = grn.job(main.above)
    proved(job, 1)

    main.above.new = "new"

    function, _ = load_function(template(job, 1).blobs[0].data)
    assert vars(function)["new"] == "new"


def test_a_stand_in_that_is_given_or_changed_later_travels(main: types.SimpleNamespace) -> None:
    job = grn.job(main.work)
    assert not proved(job, 1).like.has_stand_in

    job.profile(main.stand_in)

    assert template(job, 1).like.has_stand_in
    proved(job, 1)
    main.FACTOR = 9
    _, stand_in = load_function(template(job, 1).blobs[0].data)
    assert stand_in is not None
    assert stand_in(1) == 9


@pytest.mark.parametrize(
    "value", [[1], {"a": 1}, {1}, bytearray(b"x"), types.SimpleNamespace()]
)
def test_what_is_mutable_is_pickled_at_each_call(
    main: types.SimpleNamespace, counted: Counted, value: object
) -> None:
    main.FACTOR = value
    job = grn.job(main.stand_in)
    proved(job, 1)
    before = counted.count

    for _ in range(50):
        template(job, 1)

    assert counted.count == before + 50


def test_a_changed_list_is_never_stale_and_an_unchanged_one_keeps_its_template(
    main: types.SimpleNamespace,
) -> None:
    main.FACTOR = [1]
    job = grn.job(main.stand_in)
    first = proved(job, 1)
    assert template(job, 1) is first

    main.FACTOR.append(2)

    assert result(job, 1) == [1, 2]


def test_a_value_that_changes_with_every_call_is_never_stale(
    main: types.SimpleNamespace,
) -> None:
    job = grn.job(main.stand_in)

    for number in range(3000, 3100):
        main.FACTOR = number
        assert result(job, 1) == number


def test_a_class_of_the_script_may_change_and_so_is_pickled_at_each_call(
    main: types.SimpleNamespace,
) -> None:
    exec("class Config:\n    rate = 1\ndef use(x): return Config.rate", main.__dict__)
    job = grn.job(main.use)
    proved(job, 1)

    main.Config.rate = 2

    assert result(job, 1) == 2


def test_jobs_that_use_jobs_are_looked_into(main: types.SimpleNamespace) -> None:
    main.helper = grn.job(main.helper)
    main.above.__code__ = (lambda x: helper.local(x)).__code__  # type: ignore[name-defined] # noqa: F821
    job = grn.job(main.above)
    assert result(job, 1) == 3
    proved(job, 1)

    main.FACTOR = 5

    assert result(job, 1) == 6


def test_what_replaces_an_imported_function_is_seen(
    main: types.SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    main.helper = worked.plain
    job = grn.job(main.above)
    proved(job, 1)
    before = template(job, 1).blobs[0].data

    monkeypatch.setattr(worked, "plain", lambda x: "patched")

    # It is found by its name no more, and so has to travel itself.
    assert template(job, 1).blobs[0].data != before
    assert result(job, 1) == ("plain", 1)


def test_a_module_that_is_to_travel_by_value_does(main: types.SimpleNamespace) -> None:
    main.helper = worked.plain
    job = grn.job(main.above)
    before = proved(job, 1).blobs[0].data

    cloudpickle.register_pickle_by_value(worked)
    try:
        assert template(job, 1).blobs[0].data != before
    finally:
        cloudpickle.unregister_pickle_by_value(worked)


def test_a_module_that_is_loaded_below_one_in_use_travels(
    main: types.SimpleNamespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "grn_pkg").mkdir()
    (tmp_path / "grn_pkg" / "__init__.py").touch()
    (tmp_path / "grn_pkg" / "below.py").write_text("x = 1")
    monkeypatch.syspath_prepend(tmp_path)
    exec("import grn_pkg\ndef use(x): return grn_pkg.below.x", main.__dict__)
    job = grn.job(main.use)
    before = proved(job, 1)

    exec("import grn_pkg.below", main.__dict__)

    assert template(job, 1) is not before
    for name in ("grn_pkg", "grn_pkg.below"):
        sys.modules.pop(name)


def test_options_and_their_variables_are_never_stale(main: types.SimpleNamespace) -> None:
    variables = {"A": "1"}
    job = grn.job(env=variables)(main.work)
    before = proved(job, 1)

    variables["A"] = "2"
    changed = template(job, 1)

    assert changed is not before
    assert changed.like.context != before.like.context
    job.options = job.options.with_options(priority=7)
    assert template(job, 1).like.priority == 7


def test_by_values_detached_and_parent_have_templates_of_their_own(
    main: types.SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = grn.job(by=("x",))(main.above)
    proved(job, 1)

    found = [template(job, 1), template(job, 2), template(job, True), template(job, 1.0)]
    assert [repr(one.like.by["x"]) for one in found] == ["1", "2", "True", "1.0"]
    assert template(job, 1, detached=True).like.detached
    assert template(job, 1) is found[0]
    monkeypatch.setitem(os.environ, "GRN_JOB_ID", "a" * 32)
    assert template(job, 1).like.parent == "a" * 32


def test_a_job_that_was_called_travels_without_what_is_remembered_of_it(
    main: types.SimpleNamespace,
) -> None:
    job = grn.job(main.work)
    proved(job, 1)

    assert "describer" not in vars(job)
    assert job.__reduce__()[2] == (main.work, job.options, None)
