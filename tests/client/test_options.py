"""The options of `@grn.job`: what is allowed, and what is said of what is not."""

from typing import Any

import pytest

import grn_zmq as grn
from grn_zmq import wire
from grn_zmq.limits import MAX_PRIORITY, MAX_RETRIES
from grn_zmq.options import JobOptions
from grn_zmq.records import JobSpec
from grn_zmq.submission import describe_call
from grn_zmq.units import GIB, MIB
from tests.builders import a_spec


def options(**given: Any) -> JobOptions:
    return grn.job(**given)(lambda batch_size=1: None).options


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("spread", "spread"),
        ("spreading", "spread"),
        ("pack", "pack"),
        ("packing", "pack"),
    ],
)
@pytest.mark.parametrize("option", ["policy", "resource_policy"])
def test_r11_old_names_of_policies_mean_the_same(option: str, given: str, meant: str) -> None:
    assert options(**{option: given}) == options(policy=meant)
    assert options(policy=meant).policy == meant


@pytest.mark.parametrize("option", ["policy", "resource_policy"])
@pytest.mark.parametrize("value", ["x", "Spread", "", None, 3])
def test_r12_a_bad_policy_fails_when_decorating(option: str, value: object) -> None:
    with pytest.raises(ValueError, match=r"'spread'.*'pack'"):
        grn.job(**{option: value})


def test_r06_jobstr_says_the_same_as_type() -> None:
    assert options(jobstr="x") == options(type="x")
    assert grn.job(jobstr="x")(len).job_type == "x"


def test_an_unknown_option_is_named_with_those_there_are() -> None:
    with pytest.raises(TypeError, match=r"unknown option polcy=; there are type, .*policy"):
        grn.job(polcy="pack")


@pytest.mark.parametrize(
    "given",
    [
        {"type": "a", "jobstr": "b"},
        {"policy": "pack", "resource_policy": "pack"},
        {"when_unavailable": "raise", "continue_on_server_unavailable": True},
    ],
)
def test_an_option_under_two_names_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match="is given twice"):
        grn.job(**given)


@pytest.mark.parametrize(
    "given",
    [
        {"type": 3},
        {"type": "a\nb"},
        {"type": ""},
        {"name": None},
        {"name": "n" * 5000},
        {"by": ("not a name",)},
        {"by": 3},
        {"memory": 6},
        {"memory": None},
        {"priority": "high"},
        {"priority": 1.5},
        {"priority": True},
        {"gpus": True},
        {"gpus": None},
        {"gpus": [0, 1]},
        {"resources": ["cpu"]},
        {"resources": None},
        {"resources": {"cpu": None}},
        {"resources": {1: 1}},
        {"oom_retries": "2"},
        {"oom_retries": False},
        {"enforce": 1},
        {"exclusive": 1},
        {"on_end": None},
        {"on_end": "a\nb"},
        {"on_end": "x" * 5000},
        {"inline": "yes"},
        {"reuse": 1},
        {"env": {"A": 1}},
        {"env": ["A=1"]},
        {"env": {"A=B": "1"}},
        {"env": {"A": "\0"}},
    ],
    ids=str,
)
def test_a_value_of_the_wrong_kind_fails_when_decorating(given: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match=f"{next(iter(given))}="):
        grn.job(**given)


def test_when_unavailable_has_two_values() -> None:
    with pytest.raises(ValueError, match="must be 'raise' or 'local'"):
        grn.job(when_unavailable="ignore")
    assert options(continue_on_server_unavailable=True).when_unavailable == "local"
    assert options(continue_on_server_unavailable=False).when_unavailable == "raise"


def test_one_name_in_by_needs_no_tuple() -> None:
    assert options(by="batch_size").by == ("batch_size",)
    assert options(by=["batch_size"]).by == ("batch_size",)


def test_options_are_checked_again_when_changed() -> None:
    given = options(policy="pack", env={"A": "1"})

    assert given.with_options(name="n").policy == "pack"
    with pytest.raises(ValueError, match="'spread'"):
        given.with_options(policy="x")


def test_an_executor_takes_job_options_and_checks_them() -> None:
    with pytest.raises(TypeError, match="unknown option polcy="):
        grn.Executor(polcy="pack")
    with pytest.raises(ValueError, match="max_workers"):
        grn.Executor(max_workers=0)
    with pytest.raises(ValueError, match="inline=True"):
        grn.Executor(inline=True)


@pytest.mark.parametrize(
    ("memory", "size"), [("6GiB", 6 * GIB), ("512M", 512 * MIB), ("100", 100 * MIB), ("", 0)]
)
def test_a_first_estimate_is_a_size(memory: str, size: int) -> None:
    assert options(memory=memory).memory_bytes == size


@pytest.mark.parametrize("memory", ["6 Gigs", "-1GiB", "0", "lots", "1e9", "9999999999TiB"])
def test_r12_a_bad_size_fails_when_decorating(memory: str) -> None:
    with pytest.raises(ValueError, match=f"memory='{memory}'"):
        grn.job(memory=memory)


@pytest.mark.parametrize(
    ("option", "values"),
    [
        ("priority", (-MAX_PRIORITY - 1, MAX_PRIORITY + 1)),
        ("oom_retries", (-1, MAX_RETRIES + 1)),
    ],
)
def test_numbers_have_limits_which_are_told(option: str, values: tuple[int, int]) -> None:
    for value in values:
        with pytest.raises(ValueError, match=rf"{option}={value} must be within -?\d+ and \d+"):
            grn.job(**{option: value})


def test_what_is_allowed_at_most_can_travel() -> None:
    given = options(
        memory="8388607TiB", priority=-MAX_PRIORITY, oom_retries=MAX_RETRIES, enforce=True
    )
    spec = a_spec(
        memory_bytes=given.memory_bytes,
        priority=given.priority,
        oom_retries=given.oom_retries,
        enforce=given.enforce,
    )

    assert wire.decode(wire.encode(wire.Submit((spec,)))) == wire.Submit((spec,))


def test_a_cap_on_the_callers_own_process_is_refused_when_decorating() -> None:
    with pytest.raises(ValueError, match="inline=True and enforce=True exclude each other"):
        options(inline=True, enforce=True)
    with pytest.raises(ValueError, match="exclude each other"):
        grn.job(enforce=True)(lambda: None).with_options(inline=True)


@pytest.mark.parametrize("option", ["timeout", "time_limit", "grace"])
@pytest.mark.parametrize("written", ["15m", 900, 900.0, "0:15:00"])
def test_times_are_seconds_or_texts(option: str, written: float | str) -> None:
    assert getattr(options(**{option: written}), f"{option}_s") == 900.0


def test_without_limits_nothing_is_limited_but_the_grace() -> None:
    plain = options()

    assert (plain.timeout_s, plain.time_limit_s, plain.grace_s) == (None, None, 5.0)
    assert (options(timeout=0).timeout_s, options(grace=0).grace_s) == (0.0, 0.0)


@pytest.mark.parametrize(
    "given",
    [
        {"timeout": -1},
        {"timeout": "soon"},
        {"time_limit": 0},
        {"time_limit": "0s"},
        {"time_limit": 1e12},
        {"grace": "-1s"},
        {"retries": -1},
        {"retries": MAX_RETRIES + 1},
    ],
)
def test_a_limit_that_makes_no_sense_is_named(given: dict[str, Any]) -> None:
    (option,) = given
    with pytest.raises(ValueError, match=f"{option}="):
        grn.job(**given)


@pytest.mark.parametrize(
    "given", [{"timeout": [1]}, {"time_limit": True}, {"grace": b"1"}, {"retries": 1.5}]
)
def test_a_limit_of_another_type_is_refused(given: dict[str, Any]) -> None:
    (option,) = given
    with pytest.raises(TypeError, match=f"{option}="):
        grn.job(**given)


class Flaky(Exception):
    class Inner(Exception):
        pass


def test_causes_are_named_as_results_name_them() -> None:
    given = options(retries=3, retry_on=(ValueError, Flaky.Inner, "lost", "time-limit"))

    inner = f"{__name__}.Flaky.Inner"
    assert given.retry_on == ("ValueError", inner, "lost", "time-limit")
    assert options(retries=1, retry_on=OSError).retry_on == ("OSError",)
    assert given.with_options(retries=1).retry_on == given.retry_on


@pytest.mark.parametrize("cause", ["losst", "ValueError", int, 3, None, ValueError("x")])
def test_what_is_no_cause_is_refused_with_those_there_are(cause: object) -> None:
    with pytest.raises(TypeError, match=r"retry_on=.*'lost', 'time-limit', 'killed', 'exit'"):
        grn.job(retries=1, retry_on=cause)


def test_causes_without_retries_would_do_nothing() -> None:
    with pytest.raises(ValueError, match="add retries=1"):
        grn.job(retry_on=ValueError)


@pytest.mark.parametrize(
    "given",
    [
        {"time_limit": 1},
        {"grace": 0},
        {"retries": 1},
        {"retries": 1, "retry_on": "lost"},
        {"exclusive": True},
        {"on_end": "notify-send done"},
        {"gpus": 2},
        {"gpus": 0},
        {"gpus": 0.5},
    ],
)
def test_an_inline_job_refuses_what_only_others_could_do_for_it(given: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"inline=True and \w+= exclude each other"):
        grn.job(inline=True, **given)
    assert grn.job(inline=True, timeout=3)(len).options.timeout_s == 3.0


@pytest.mark.parametrize("hook", ["notify-send done", "https://host/x", "HTTP://host", ""])
def test_a_hook_is_a_command_or_a_url(hook: str) -> None:
    assert options(on_end=hook).on_end == hook


@pytest.mark.parametrize("hook", ["ftp://host/x", "file:///etc/passwd"])
def test_a_url_that_nobody_can_post_to_fails_when_decorating(hook: str) -> None:
    with pytest.raises(ValueError, match=r"on_end=.* must be a command, or a URL"):
        grn.job(on_end=hook)


@pytest.mark.parametrize(
    "given",
    [
        {"gpus": 2.5},
        {"gpus": -2},
        {"gpus": "many"},
        {"gpus": 1025},
        {"gpus": float("nan")},
        {"resources": {"cpu": 0}},
        {"resources": {"cpu": -1}},
        {"resources": {"my cpu": 1}},
        {"resources": {"cpu": "some"}},
    ],
    ids=str,
)
def test_what_nobody_can_be_given_fails_when_decorating(given: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=f"{next(iter(given))}="):
        grn.job(**given)


@pytest.mark.parametrize(
    "given",
    [
        {"gpus": 0, "memory": "1GiB"},
        {"gpus": 0, "enforce": True},
        {"gpus": 0, "exclusive": True},
        {"gpus": 0.5, "exclusive": True},
    ],
    ids=str,
)
def test_what_contradicts_itself_fails_when_decorating(given: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"gpus=\S+ and \w+=\w* exclude each other"):
        grn.job(**given)


def spec_of(asked: JobOptions) -> JobSpec:
    return describe_call(
        len, None, "len", asked, ("x",), {}, detached=False, session=lambda: "0" * 32
    )[0]


def test_what_is_asked_for_a_call_travels_with_it() -> None:
    spec = spec_of(options(exclusive=True, on_end="notify-send done"))

    assert (spec.exclusive, spec.on_end) == (True, "notify-send done")
    assert (spec.gpus, spec.share, spec.resources, spec.queue) == (1, "", {}, "")


@pytest.mark.parametrize(
    ("gpus", "meant"),
    [(1, (1, "")), (0, (0, "")), (2, (2, "")), (-1, (-1, "")), (0.1, (1, "0.1"))],
)
def test_devices_and_resources_travel_as_exact_texts(
    gpus: float, meant: tuple[int, str]
) -> None:
    spec = spec_of(options(gpus=gpus, resources={"cpu": 4, "licence": 0.5, "x": "1/3"}))

    assert (spec.gpus, spec.share) == meant
    assert spec.resources == {"cpu": "4", "licence": "0.5", "x": "1/3"}


def test_an_inline_job_may_declare_resources() -> None:
    assert options(inline=True, resources={"licence": 1}).declared.resources == {"licence": "1"}
