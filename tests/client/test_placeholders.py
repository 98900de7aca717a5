"""G17, G18: what braces in a command become when it starts, and which stay."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grn_zmq.placeholders import NAMES, fill, fill_variables, fill_words, values_of
from grn_zmq.records import Leased
from grn_zmq.units import MIB

VALUES = values_of(
    job_id="a" * 32,
    number=17,
    name="night run",
    attempt=2,
    lease_bytes=6 * 1024 * MIB + 5,
    devices=[Leased("GPU-1b2c", 3, "nvml:3")],
    granted={},
)


@pytest.mark.parametrize(
    ("text", "filled"),
    [
        ("{gpu}", "3"),
        ("{device}", "nvml:3"),
        ("{uuid}", "GPU-1b2c"),
        ("{memory}", "6144"),
        ("{job}", "17"),
        ("{id}", "a" * 32),
        ("{name}", "night run"),
        ("{attempt}", "2"),
        ("--out=run-{job}.{attempt}/gpu{gpu}{gpu}", "--out=run-17.2/gpu33"),
    ],
)
def test_g18_each_placeholder_is_replaced_wherever_it_stands(text: str, filled: str) -> None:
    assert fill(text, VALUES) == filled


def test_there_are_no_other_placeholders() -> None:
    assert VALUES.keys() == NAMES


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "{{}}",
        "{",
        "}{",
        "gpu",
        "{lr}",
        "{GPU}",
        "{gpu",
        "gpu}",
        "{ gpu }",
        "{gpu!r}",
        "{gpu:>4}",
        "{gpu.name}",
        "${gpus}",
        "{{lr}}",
        "{{.ID}}",
        '{"lr": 0.1, "sizes": [1, 2]}',
        "{print $1}",
        "f'{x}' {y} {gpus}",
        "a{b,c}d",
        "ends in {",
        "\udcff{\udcff}",
    ],
)
def test_g18_all_other_braces_stay_as_they_are(text: str) -> None:
    assert fill(text, VALUES) == text


@pytest.mark.parametrize(
    ("text", "filled"),
    [
        ("{{gpu}}", "{gpu}"),
        ("{{{gpu}}}", "{{gpu}}"),
        ("{{gpu}} is {gpu}", "{gpu} is 3"),
        ("{{gpu}}{{gpu}}", "{gpu}{gpu}"),
    ],
)
def test_g18_a_placeholder_in_double_braces_is_meant_literally(text: str, filled: str) -> None:
    assert fill(text, VALUES) == filled


@pytest.mark.parametrize(
    ("text", "filled"),
    [
        ('{"gpu": {gpu}}', '{"gpu": 3}'),
        ('{"a": {"gpu": {gpu}, "job": "{job}"}}', '{"a": {"gpu": 3, "job": "17"}}'),
        ("{{gpu}: 1}", "{3: 1}"),
        ("awk '{print {gpu}}'", "awk '{print 3}'"),
        ("{{gpu}", "{3"),
        ("{gpu}}", "3}"),
    ],
)
def test_g18_a_placeholder_within_other_braces_is_replaced(text: str, filled: str) -> None:
    assert fill(text, VALUES) == filled


def test_what_is_put_in_is_not_looked_at_again() -> None:
    assert fill("{name}", {**VALUES, "name": "{gpu}{{id}}"}) == "{gpu}{{id}}"
    assert fill("{name}gpu}", {**VALUES, "name": "{"}) == "{gpu}"


def test_a_value_with_spaces_stays_one_word() -> None:
    assert fill_words(["echo", "{name}", "x"], VALUES) == ["echo", "night run", "x"]


def test_g17_g18_names_and_values_of_variables_are_filled() -> None:
    asked = {"DEVICE_{gpu}": "cuda:{gpu}", "PLAIN": "a=b=c", "JSON": '{"gpu": {gpu}}'}

    assert fill_variables(asked, VALUES) == {
        "DEVICE_3": "cuda:3",
        "PLAIN": "a=b=c",
        "JSON": '{"gpu": 3}',
    }


def test_other_names_can_be_filled_too_and_leave_these_alone() -> None:
    assert (
        fill("--lr {lr} --gpu {gpu} {{gpu}}", {"lr": "0.1"}) == "--lr 0.1 --gpu {gpu} {{gpu}}"
    )


TEXTS = st.lists(
    st.sampled_from(["{", "}", "{{", "}}", "gpu", "id", "x", " ", '"', "{gpu}", "{{job}}"]),
    max_size=12,
).map("".join)


@given(TEXTS)
def test_whatever_is_written_its_names_in_braces_can_be_quoted(text: str) -> None:
    quoted = re.sub(rf"\{{({'|'.join(NAMES)})\}}", r"{{\1}}", text)

    assert fill(quoted, VALUES) == text


@given(TEXTS)
def test_without_values_nothing_is_changed(text: str) -> None:
    assert fill(text, {}) == text


@given(st.text())
def test_a_text_without_placeholders_is_never_changed(text: str) -> None:
    if not any(f"{{{name}}}" in text for name in NAMES):
        assert fill(text, VALUES) == text
