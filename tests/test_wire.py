"""The protocol as bytes: what goes in comes out, and nothing else comes in."""

import base64
import json
import math
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any, Final, get_args

import msgpack
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grn_zmq import wire
from grn_zmq.codec import MAX_HEADER_BYTES, MAX_ITEMS, MAX_TEXT
from grn_zmq.records import (
    Begun,
    Blob,
    Numbered,
    Run,
)
from tests.builders import (
    a_device_row,
    a_greet,
    a_hello,
    a_job_row,
    a_piece,
    a_profile_row,
    a_release,
    a_report,
    a_result,
    a_run,
    a_spec,
    a_token,
    a_use,
    an_attempt,
    an_id,
    an_outcome,
    held,
)
from tests.control_examples import (
    A_DECLARED_NEED,
    A_GRANT,
    A_WAITING_COMMAND,
    CONTROL,
    STRANGERS,
)

# By protocol: what this one writes, and what the one before wrote.
_GOLDEN: Final[dict[str, dict[str, list[str]]]] = json.loads(
    (Path(__file__).parent / "golden_frames.json").read_text()
)
GOLDEN: Final = _GOLDEN[str(wire.PROTOCOL)]
GOLDEN_BEFORE: Final = _GOLDEN[str(wire.PROTOCOL_BEFORE)]

LIFECYCLE: Final[dict[str, Any]] = {
    "timeout_s": 0.0,
    "time_limit_s": 3600.0,
    "retries": 3,
    "retry_on": ("lost", "ValueError"),
    "grace_s": 1.5,
    "token": a_token(),
}

LOST_WORDS: Final[dict[str, Any]] = {
    "error_bases": ("builtins.ValueError", "ValueError", "Exception"),
    "last_lines": "line",
    "token": a_token(2),
}

RUN_WORDS: Final[dict[str, Any]] = {
    "detached": True,
    "time_limit_s": 60.0,
    "grace_s": 0.5,
    "token": a_token(4, "disk"),
    "number": 12,
    "name": "night",
    "variables": {"A": "{gpu}"},
}

EXAMPLES: Final[dict[str, wire.Message]] = {
    message.kind: message
    for message in (
        a_hello(),
        wire.Submit(
            (
                a_spec(1, by={"n": 3, "p": -0.5, "m": "s", "b": True}, **LIFECYCLE),
                a_spec(2, priority=-3),
                a_spec(3, **A_WAITING_COMMAND),
                a_spec(4, **A_DECLARED_NEED),
                a_spec(5, gpus=1, share="1/3"),
            )
        ),
        wire.Cancel((an_id(1), an_id(2)), interrupt=True),
        wire.Release((a_release(1, failed=True), a_release(2, attempt=3))),
        wire.Attach((an_id(1),)),
        wire.Received((an_id(1),)),
        wire.AskJobs(after=7, ended=True),
        wire.AskDevices(),
        wire.AskProfiles(after=3),
        wire.ForgetProfiles(("train.py::fit",)),
        wire.ProfilesAre((a_profile_row(),), more=False),
        wire.Forgotten(2),
        wire.Welcome(wire.PROTOCOL, epoch=1_700_000_000_000, pid=77, greeting=4, credits=64),
        wire.Accepted((Numbered(an_id(1), 1),)),
        wire.Refused("id-conflict", "make a new id", (an_id(1),)),
        wire.Want(("f" * 64, "c" * 64)),
        wire.Cancelling((an_id(1),)),
        wire.Ended(
            (
                an_outcome(1),
                an_outcome(2, outcome="killed", signal=9, payload=b"", last_lines="Killed"),
                an_outcome(3, payload=b"", token=a_token(3, "disk")),
            )
        ),
        wire.JobsAre((a_job_row(title="fit", ended_s=2.5, exit_status=3),), more=True),
        wire.DevicesAre((a_device_row(temperature_c=61, processes=STRANGERS),)),
        wire.Blobs((Blob("f" * 64, b"function"), Blob("c" * 64, b"context"))),
        wire.Output((a_piece(1, stream="stderr", data="naïve ✓".encode()), a_piece(2))),
        wire.Started((Begun(an_id(1), 1, "host:0", False, {"CUDA_VISIBLE_DEVICES": "GPU-1"}),)),
        a_greet(
            inventory=(held(1), held(2, 3, "finished"), held(3, 1, "interrupted")),
            max_jobs=4,
            greeting=6,
        ),
        wire.Finished(
            5, (a_result(1), a_result(2, outcome="failed", exit_status=3, **LOST_WORDS))
        ),
        a_report(
            used_bytes=3,
            foreign_bytes=2,
            utilisation=0.5,
            uses=(a_use(1, pid=99),),
            temperature_c=61,
            processes=STRANGERS,
        ),
        wire.Assign(
            5, (a_run(1), replace(a_run(2, payload=b""), **RUN_WORDS), a_run(3, **A_GRANT))
        ),
        wire.End(5, "interrupt", (an_attempt(1), an_attempt(2, 3))),
        wire.Recorded(5, (an_attempt(1),)),
        wire.EndIdle(an_id(900)),
        wire.Unknown(5, (an_attempt(1),)),
        wire.Declined(5, "No space left on device", (an_attempt(1), an_attempt(2, 2))),
        wire.Leaving(),
        wire.Leave(),
        wire.Stop(drain=True),
        wire.Stopping(running=2, kept=7),
        wire.Calls(a_spec(1), (an_id(2), an_id(3)), (b"two", b"")),
        wire.Taken(7, (an_id(2), an_id(3))),
        wire.Values(an_outcome(1), (an_id(2),), (0.5,), (0.25,), (b"value",)),
        wire.Returned(
            5, (an_id(2), an_id(3)), (1, 2), (0.5, 0.25), (b"a", b"b"), 7, 0.5, seen=True
        ),
        wire.GivenBack(5, (an_attempt(1), an_attempt(2, 3))),
        wire.Recall(5),
        wire.Arrived(5, (an_id(2),), (1,)),
        *CONTROL,
    )
}

ANY_VALUE = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(1 << 63), (1 << 64) - 1)
    | st.floats()
    | st.text(max_size=40)
    | st.binary(max_size=40),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=8,
)


def header_of(message: wire.Message) -> list[Any]:
    header: list[Any] = msgpack.unpackb(wire.encode(message)[0])
    return header


def with_field(message: wire.Message, field: str, value: object) -> wire.Frames:
    """The frames of a message in which one field was overwritten."""
    header = header_of(message)
    header[1][[one.name for one in fields(message)].index(field)] = value
    return [msgpack.packb(header), *wire.encode(message)[1:]]


def a_submit_with(field: str, value: object) -> wire.Frames:
    message = wire.Submit((a_spec(),))
    header = header_of(message)
    header[1][0][0][[one.name for one in fields(a_spec())].index(field)] = value
    return [msgpack.packb(header), *wire.encode(message)[1:]]


def assert_refused(frames: wire.Frames, match: str = ".") -> None:
    with pytest.raises(wire.BadMessage, match=match) as caught:
        wire.decode(frames)
    assert type(caught.value) is wire.BadMessage
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize("kind", EXAMPLES)
def test_a_message_survives_the_wire(kind: str) -> None:
    message = EXAMPLES[kind]

    assert wire.decode(wire.encode(message)) == message


def test_every_message_has_an_example_and_golden_frames() -> None:
    assert set(EXAMPLES) == set(GOLDEN) == set(wire.MESSAGES)


def test_every_message_belongs_to_some_direction() -> None:
    assert set(get_args(wire.Message)) == set(wire.MESSAGES.values())


@pytest.mark.parametrize("kind", EXAMPLES)
def test_the_bytes_of_a_message_are_stable(kind: str) -> None:
    frames = [base64.b64encode(frame).decode() for frame in wire.encode(EXAMPLES[kind])]

    assert frames == GOLDEN[kind], f"{kind} looks different on the wire: raise PROTOCOL"


@pytest.mark.parametrize("kind", EXAMPLES)
def test_golden_frames_are_still_understood(kind: str) -> None:
    frames = [base64.b64decode(frame) for frame in GOLDEN[kind]]

    assert wire.decode(frames) == EXAMPLES[kind]


def before(value: Any) -> Any:
    """A message as the protocol before meant it: without what was added since."""
    if isinstance(value, tuple):
        return tuple(map(before, value))
    if not is_dataclass(value) or isinstance(value, type):
        return value
    changes = {
        one.name: before(getattr(value, one.name))
        for one in fields(value)
        if "added" not in one.metadata
    }
    if "protocol" in changes:
        changes["protocol"] = wire.PROTOCOL_BEFORE
    return type(value)(**changes)


@pytest.mark.parametrize("kind", GOLDEN_BEFORE)
def test_f53_frames_of_the_protocol_before_are_understood(kind: str) -> None:
    frames = [base64.b64decode(frame) for frame in GOLDEN_BEFORE[kind]]

    assert wire.decode(frames) == before(EXAMPLES[kind])


@pytest.mark.parametrize("kind", GOLDEN_BEFORE)
def test_f53_a_peer_of_the_protocol_before_is_answered_in_its_words(kind: str) -> None:
    message = EXAMPLES[kind]
    if hasattr(message, "protocol"):
        message = replace(message, protocol=wire.PROTOCOL_BEFORE)  # type: ignore[arg-type]

    frames = wire.encode(message, wire.PROTOCOL_BEFORE)

    assert [base64.b64encode(frame).decode() for frame in frames] == GOLDEN_BEFORE[kind]


def test_the_protocol_before_knew_all_but_the_newest_messages() -> None:
    newest = {"calls", "taken", "values", "returned", "given-back", "recall", "arrived"}

    assert set(GOLDEN_BEFORE) == set(wire.MESSAGES) - newest


@pytest.mark.parametrize("record", [Run])
def test_what_was_added_stands_at_the_end_and_has_a_default(record: type) -> None:
    marks = ["added" in one.metadata for one in fields(record)]

    assert marks == sorted(marks)
    assert any(marks)


@pytest.mark.parametrize("count", [1, 2, 5])
def test_a_part_of_what_was_added_is_refused(count: int) -> None:
    message = wire.Submit((a_spec(),))
    header = header_of(message)
    header[1][0][0] = header[1][0][0][:-count]

    assert_refused([msgpack.packb(header), *wire.encode(message)[1:]], "fields")


@pytest.mark.parametrize(
    "token", ["", "shm", "shm-1-2", f"ram-{an_id(1)}-{an_id(2)}", f"shm-{an_id(1)}-../../x"]
)
def test_a_token_that_is_no_name_of_a_parcel_is_refused(token: str) -> None:
    if token:
        assert_refused(a_submit_with("token", token), "not a token")
    else:
        wire.decode(a_submit_with("token", token))


@pytest.mark.parametrize("field", ["timeout_s", "time_limit_s", "grace_s", "begin_s"])
@pytest.mark.parametrize("value", [-1.0, math.nan, math.inf, 1e12])
def test_seconds_are_bounded(field: str, value: float) -> None:
    assert_refused(a_submit_with(field, value))


def test_payload_is_one_frame_in_the_order_of_the_fields() -> None:
    frames = wire.encode(wire.Blobs((Blob("a", b"one"), Blob("b", b"two"))))

    assert frames[1:] == [b"onetwo"]


@pytest.mark.parametrize("kind", EXAMPLES)
def test_a_repr_shows_no_payload_and_no_context(kind: str) -> None:
    secret = b"SECRET"
    secrets: dict[str, wire.Message] = {
        "submit": wire.Submit((a_spec(payload=secret),)),
        "assign": wire.Assign(1, (a_run(payload=secret),)),
        "finished": wire.Finished(1, (a_result(payload=secret),)),
        "ended": wire.Ended((an_outcome(payload=secret),)),
        "blobs": wire.Blobs((Blob("c" * 64, secret),)),
        "inputs-are": wire.InputsAre(a_spec(payload=secret), ()),
        "output": wire.Output((a_piece(data=secret),)),
        "calls": wire.Calls(a_spec(payload=secret), (an_id(2),), (secret,)),
        "values": wire.Values(an_outcome(), (an_id(2),), (0.5,), (0.25,), (secret,)),
        "returned": wire.Returned(5, (an_id(2),), (1,), (0.5,), (secret,), 7, 0.5, seen=True),
    }
    message = secrets.get(kind, EXAMPLES[kind])

    assert (len(wire.encode(message)) == 2) == (secret in b"".join(wire.encode(message)))
    assert "SECRET" not in repr(message)


@pytest.mark.parametrize("count", [0, 3, 8])
def test_a_wrong_number_of_frames_is_refused(count: int) -> None:
    frames = wire.encode(wire.AskDevices())

    assert_refused(frames * count, "frames")


@pytest.mark.parametrize(
    "header",
    [b"", b"\xc1", b"not msgpack", b"\x92\xa5hello", b"\xdd\xff\xff\xff\xff", b"\xff" * 99],
)
def test_what_is_not_msgpack_is_refused(header: bytes) -> None:
    assert_refused([header])


@pytest.mark.parametrize(
    "header",
    [None, 7, "hello", {}, [], ["hello"], [1, []], ["hello", [], []], {"hello": []}],
)
def test_what_is_not_a_kind_and_fields_is_refused(header: object) -> None:
    assert_refused([msgpack.packb(header)], "kind, fields|not msgpack")


def test_an_unknown_kind_is_refused() -> None:
    assert_refused([msgpack.packb(["x" * 1000, []])], "unknown kind")


def fewer(message: wire.Message, values: list[Any]) -> list[Any] | None:
    """The fields without the last one, or two where the protocol before had just those."""
    added = sum("added" in one.metadata for one in fields(message))
    return values[: -2 if added == 1 else -1] if values else None


@pytest.mark.parametrize("kind", EXAMPLES)
@pytest.mark.parametrize("change", ["one more", "one less", "a map", "none"])
def test_a_wrong_number_of_fields_is_refused(kind: str, change: str) -> None:
    header = header_of(EXAMPLES[kind])
    changed: dict[str, object] = {
        "one more": [*header[1], 0],
        "one less": fewer(EXAMPLES[kind], header[1]),
        "a map": {"protocol": 1},
        "none": None,
    }
    frames = [msgpack.packb([kind, changed[change]]), *wire.encode(EXAMPLES[kind])[1:]]

    assert_refused(frames, "fields|body")


@pytest.mark.parametrize("value", [None, "1", 1.0, True, -1, 1 << 63, b"1", [1], {}])
def test_a_count_is_a_whole_number_from_zero_up(value: object) -> None:
    assert_refused(with_field(a_hello(), "pid", value), "whole number")


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, None, "1", True, b"", []])
def test_a_number_is_finite(value: object) -> None:
    assert_refused(with_field(a_report(), "utilisation", value), "finite number")


@pytest.mark.parametrize("value", [None, 1, b"text", ["text"], "x" * (MAX_TEXT + 1)])
def test_a_text_is_text_of_bounded_length(value: object) -> None:
    assert_refused(with_field(wire.Refused("a", "b", ()), "text", value), "not a text")


@pytest.mark.parametrize("value", [None, 0, 1, "true", []])
def test_a_flag_is_true_or_false(value: object) -> None:
    assert_refused(with_field(wire.AskJobs(0, ended=True), "ended", value), "true nor false")


@pytest.mark.parametrize("value", [None, "abc", {}, [1], [None], [""] * (MAX_ITEMS + 1)])
def test_a_list_is_a_list_of_bounded_length(value: object) -> None:
    assert_refused(with_field(wire.Want(()), "digests", value))


@pytest.mark.parametrize(
    "value", [None, [], {"a": None}, {"a": [1]}, {"a": math.nan}, {"a": b""}]
)
def test_arguments_named_in_by_are_scalars(value: object) -> None:
    assert_refused(a_submit_with("by", value))


@pytest.mark.parametrize("value", [-1, 1 << 63, "0", 1.0, True])
def test_an_exit_status_is_a_count_or_nothing(value: object) -> None:
    message = wire.Finished(1, (a_result(),))
    header = header_of(message)
    header[1][1][0][3] = value

    assert_refused([msgpack.packb(header), *wire.encode(message)[1:]])


def test_a_lone_surrogate_is_refused() -> None:
    frames = wire.encode(wire.EndIdle("X" * 3))
    broken = frames[0].replace(b"XXX", b"\xed\xa0\x80")

    assert broken != frames[0]
    assert_refused([broken], "not msgpack")


@pytest.mark.parametrize("change", [b"", b"argument", b"arguments!", b"arguments" * 2])
def test_a_body_of_another_length_is_refused(change: bytes) -> None:
    frames = wire.encode(wire.Submit((a_spec(payload=b"arguments"),)))

    assert_refused([frames[0], change], "body")
    if not change:
        assert_refused([frames[0]], "body")


def test_a_body_where_none_belongs_is_refused() -> None:
    assert_refused([*wire.encode(wire.AskDevices()), b"x"], "belong to no field")


def test_a_header_above_its_limit_is_refused_unread() -> None:
    assert_refused([b"\xc0" * (MAX_HEADER_BYTES + 1)], "header of")


def test_a_message_with_too_large_a_header_is_not_sent() -> None:
    jobs = tuple(a_spec(number, stdin="x" * MAX_TEXT) for number in range(20))

    with pytest.raises(wire.BadMessage, match="too many"):
        wire.encode(wire.Submit(jobs))


@pytest.mark.parametrize("depth", [200, 500, 1000, 1023])
def test_a_deeply_nested_value_is_refused_like_any_other(depth: int) -> None:
    header = msgpack.packb(["end-idle", [None]])[:-1] + b"\x91" * depth + b"\xc0"

    assert_refused([header])


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("kind", "Call"),
        ("kind", ""),
        ("policy", "spreading"),
        ("policy", "x" * 1000),
        ("job_type", ""),
        ("job_type", "x" * 4097),
        ("name", "x" * 4097),
        ("job_id", ""),
        ("job_id", "0" * 31),
        ("job_id", "0" * 33),
        ("job_id", "G" * 32),
        ("job_id", "A" * 32),
        ("job_id", "٣" * 32),
        ("parent", "me"),
    ],
)
def test_a_wrong_word_or_id_in_a_job_is_refused(field: str, value: str) -> None:
    assert_refused(a_submit_with(field, value))


@pytest.mark.parametrize(
    ("message", "field", "value"),
    [
        (a_hello(), "session", "me"),
        (a_greet(), "incarnation", "0" * 31),
        (wire.Output(()), "pieces", [[an_id(1), 1, "stdin", 0]]),
        (wire.End(1, "kill", ()), "how", "murder"),
    ],
)
def test_a_wrong_word_or_id_is_refused(
    message: wire.Message, field: str, value: object
) -> None:
    assert_refused(with_field(message, field, value), "unknown|is not a")


def test_an_unknown_outcome_is_refused() -> None:
    message = wire.Finished(1, (a_result(),))
    header = header_of(message)
    header[1][1][0][2] = "fine"

    assert_refused([msgpack.packb(header), *wire.encode(message)[1:]], "unknown outcome")


def test_a_device_without_memory_is_refused() -> None:
    header = header_of(a_greet())
    header[1][5][5] = 0

    assert_refused([msgpack.packb(header)], "has memory")


@given(st.lists(st.binary(max_size=300), max_size=3))
def test_random_bytes_are_refused(frames: list[bytes]) -> None:
    assert_refused(frames)


@given(st.sampled_from(sorted(wire.MESSAGES)), ANY_VALUE, st.binary(max_size=20))
@settings(max_examples=300)
def test_random_fields_give_a_message_or_bad_message(
    kind: str, fields: object, body: bytes
) -> None:
    assert_message_or_refused([msgpack.packb([kind, fields]), body])


@given(st.sampled_from(sorted(EXAMPLES)), st.data())
@settings(max_examples=400)
def test_a_message_with_one_wrong_value_is_a_message_or_refused(
    kind: str, data: st.DataObject
) -> None:
    frames = wire.encode(EXAMPLES[kind])
    header = msgpack.unpackb(frames[0])
    spot, parent = header[1], header
    while isinstance(spot, list) and spot:
        parent, at = spot, data.draw(st.integers(0, len(spot) - 1))
        spot = parent[at]
        if data.draw(st.booleans()):
            break
    if parent is not header:
        parent[at] = data.draw(ANY_VALUE)

    assert_message_or_refused([msgpack.packb(header), *frames[1:]])


@given(st.sampled_from(sorted(EXAMPLES)), st.data())
@settings(max_examples=400)
def test_a_message_with_flipped_bytes_is_a_message_or_refused(
    kind: str, data: st.DataObject
) -> None:
    frames = [bytearray(frame) for frame in wire.encode(EXAMPLES[kind])]
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(frames[0]) - 1))
        frames[0][at] = data.draw(st.integers(0, 255))
    if data.draw(st.booleans()):
        del frames[0][data.draw(st.integers(0, len(frames[0]) - 1)) :]

    assert_message_or_refused([bytes(frame) for frame in frames])


def assert_message_or_refused(frames: wire.Frames) -> None:
    """Whatever is understood must be a proper message: it can be sent on as it is."""
    try:
        message = wire.decode(frames)
    except wire.BadMessage:
        return
    assert wire.decode(wire.encode(message)) == message


def test_messages_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        a_hello().pid = 1  # type: ignore[misc]

    assert replace(a_hello(), pid=1).pid == 1
