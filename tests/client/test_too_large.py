"""What no message can carry is refused where it is made."""

import pytest

from grn_zmq import answers, submission
from grn_zmq.errors import TooLarge
from grn_zmq.options import JobOptions
from grn_zmq.submission import describe_call
from grn_zmq.tracebacks import load_exception


def test_a_result_too_large_for_a_message_is_an_error_instead_of_never_arriving(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(answers, "MAX_BODY_BYTES", 10)

    header, body = answers.or_too_large(({"outcome": "succeeded"}, bytes(11)))

    assert header["outcome"] == "failed"
    error = load_exception(body, "0" * 32)
    assert isinstance(error, TooLarge)
    assert (error.size_bytes, error.limit_bytes) == (11, 10)


def test_a_result_that_just_fits_is_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "MAX_BODY_BYTES", 10)
    result: answers.Result = ({"outcome": "succeeded"}, bytes(10))

    assert answers.or_too_large(result) == result


def test_a_function_too_large_for_a_message_is_refused_where_it_is_called(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    data = bytes(5000)
    monkeypatch.setattr(submission, "MAX_PAYLOAD_BYTES", 4000)

    with pytest.raises(TooLarge, match="the function") as caught:
        describe_call(lambda: data, None, "t", JobOptions(), (), {})

    assert caught.value.size_bytes > 5000
    assert caught.value.limit_bytes == 4000


def test_arguments_too_large_for_a_message_are_refused_where_they_are_given(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(submission, "MAX_PAYLOAD_BYTES", 4000)

    with pytest.raises(TooLarge, match="the arguments") as caught:
        describe_call(len, None, "t", JobOptions(), (bytes(5000),), {})

    assert caught.value.size_bytes > 5000
