"""Frozen dataclasses to frames and back, with every size and type checked on the way in.

A message is one or two frames: a msgpack header `[kind, [field, …]]`, and a body in
which all its `bytes` fields stand one after the other (the header has their lengths). So a
hundred small payloads cost one frame, and whoever only routes them never looks inside.
"""

import math
import types
import typing
from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields, is_dataclass
from typing import Annotated, Any, Union, get_args, get_origin

import msgpack

MAX_HEADER_BYTES = 1 << 20
# Payloads from 1 MiB travel as files; functions and what jobs share must fit.
MAX_BODY_BYTES = 16 << 20
MAX_TEXT = 64 << 10
MAX_ITEMS = 4096

Frames = list[bytes]
Pack = Callable[[Any, list[bytes]], Any]
Unpack = Callable[[Any, "Body"], Any]


class BadMessage(ValueError):
    """Bytes that are not a message of this protocol. Nothing may be changed by them."""


class Body:
    """The second frame, handed out piece by piece in the order of the header."""

    def __init__(self, data: bytes | memoryview) -> None:
        self._data = memoryview(data)
        self._at = 0

    def take(self, length: int) -> bytes:
        end = self._at + length
        if end > len(self._data):
            raise BadMessage(f"the body ends at {len(self._data)} bytes, {end} were announced")
        piece = bytes(self._data[self._at : end])
        self._at = end
        return piece

    def finish(self) -> None:
        if self._at != len(self._data):
            raise BadMessage(
                f"{len(self._data) - self._at} bytes of the body belong to no field"
            )


class Codec:
    """Encodes and decodes a closed set of message classes, each with a `kind`."""

    def __init__(self, messages: Iterable[type]) -> None:
        self._packers: dict[type, tuple[str, Pack]] = {}
        self._packers_before: dict[type, tuple[str, Pack]] = {}
        self._unpackers: dict[str, Unpack] = {}
        for message in messages:
            kind: str = message.kind  # type: ignore[attr-defined]
            pack, unpack = _for_dataclass(message)
            self._packers[message] = (kind, pack)
            self._packers_before[message] = (kind, _for_dataclass(message, before=True)[0])
            self._unpackers[kind] = unpack

    def encode(self, message: object, *, before: bool = False) -> Frames:
        """Give the frames of a message: header, and a body if it carries payload.

        Args:
            before: Leave out what was added since the protocol before this one.
        """
        packers = self._packers_before if before else self._packers
        kind, pack = packers[type(message)]
        pieces: list[bytes] = []
        header = msgpack.packb([kind, pack(message, pieces)])
        if len(header) > MAX_HEADER_BYTES:
            raise BadMessage(f"the header of this {kind} has {len(header)} bytes, too many")
        return [header, b"".join(pieces)] if pieces else [header]

    def decode(self, frames: Sequence[bytes | memoryview]) -> Any:
        """Give back the message, or raise `BadMessage`; nothing else can come out."""
        if not 1 <= len(frames) <= 2:
            raise BadMessage(f"{len(frames)} frames instead of one or two")
        if len(frames[0]) > MAX_HEADER_BYTES:
            raise BadMessage(f"a header of {len(frames[0])} bytes")
        try:
            header = msgpack.unpackb(frames[0], strict_map_key=True, use_list=True)
        except Exception as error:
            raise BadMessage(f"the header is not msgpack: {error}") from None
        if not (isinstance(header, list) and len(header) == 2 and isinstance(header[0], str)):
            raise BadMessage("the header is not [kind, fields]")
        unpack = self._unpackers.get(header[0])
        if unpack is None:
            raise BadMessage(f"unknown kind {header[0][:40]!r}")
        body = Body(frames[1] if len(frames) == 2 else b"")
        message = unpack(header[1], body)
        body.finish()
        return message


def _for_dataclass(cls: type, *, before: bool = False) -> tuple[Pack, Unpack]:
    """Give how to write and read a class; `before` writes it as the last protocol did.

    Reading knows both layouts by their length: what was added since stands at the end.
    """
    hints = typing.get_type_hints(cls, include_extras=True)
    every = fields(cls)
    old = [one for one in every if "added" not in one.metadata]
    parts = [(one.name, *_for_type(hints[one.name], before)) for one in every]
    packed = parts[: len(old)] if before else parts
    counts = (len(every), len(old))

    def pack(message: Any, pieces: list[bytes]) -> list[Any]:
        return [pack_part(getattr(message, name), pieces) for name, pack_part, _ in packed]

    def unpack(value: Any, body: Body) -> Any:
        if not isinstance(value, list) or len(value) not in counts:
            raise BadMessage(f"{cls.__name__} needs {counts[0]} fields")
        try:
            return cls(
                *[part(item, body) for (_, _, part), item in zip(parts, value, strict=False)]
            )
        except BadMessage as error:
            raise BadMessage(f"{cls.__name__}: {error}") from None
        except ValueError as error:
            raise BadMessage(f"{cls.__name__}: {error}") from None

    return pack, unpack


def _for_type(hint: Any, before: bool = False) -> tuple[Pack, Unpack]:
    origin = get_origin(hint)
    if isinstance(hint, type) and is_dataclass(hint):
        return _for_dataclass(hint, before=before)
    if hint is bytes:
        return _pack_bytes, _unpack_bytes
    if origin is Annotated:  # a whole number that may be below zero: `records.Signed`
        return _pack_plain, _whole
    if origin is tuple:
        return _for_tuple(get_args(hint)[0], before)
    if origin is dict:
        return _for_dict(get_args(hint)[1])
    if origin in (Union, types.UnionType):
        return _for_union(get_args(hint))
    return _pack_plain, _CHECKS[hint]


def _pack_plain(value: Any, _: list[bytes]) -> Any:
    return value


def _pack_bytes(value: bytes, pieces: list[bytes]) -> int:
    pieces.append(value)
    return len(value)


def _unpack_bytes(value: Any, body: Body) -> bytes:
    return body.take(_natural(value, body))


def _short(value: Any) -> str:
    """A wrong value in a few words: the repr of what is nested deeply would itself fail."""
    if isinstance(value, list | dict):
        return f"a {type(value).__name__} of {len(value)}"
    return f"{value!r:.40}"


def _natural(value: Any, _: Body) -> int:
    if type(value) is not int or not 0 <= value < 1 << 63:
        raise BadMessage(f"{_short(value)} is not a whole number ≥ 0")
    return value


def _text(value: Any, _: Body) -> str:
    if type(value) is not str or len(value) > MAX_TEXT:
        raise BadMessage(f"{_short(value)} is not a text of at most {MAX_TEXT} characters")
    return value


def _boolean(value: Any, _: Body) -> bool:
    if type(value) is not bool:
        raise BadMessage(f"{_short(value)} is neither true nor false")
    return value


def _number(value: Any, _: Body) -> float:
    if type(value) not in (int, float) or not math.isfinite(value):
        raise BadMessage(f"{_short(value)} is not a finite number")
    return float(value)


def _whole(value: Any, _: Body) -> int:
    if type(value) is not int or not -(1 << 63) <= value < 1 << 63:
        raise BadMessage(f"{_short(value)} is not a whole number of 64 bits")
    return value


_CHECKS: dict[Any, Unpack] = {int: _natural, str: _text, bool: _boolean, float: _number}


def _for_tuple(item: Any, before: bool) -> tuple[Pack, Unpack]:
    if item in _COLUMNS:
        return _COLUMNS[item]
    pack_item, unpack_item = _for_type(item, before)

    def pack(value: Any, pieces: list[bytes]) -> list[Any]:
        return [pack_item(one, pieces) for one in value]

    def unpack(value: Any, body: Body) -> tuple[Any, ...]:
        if not isinstance(value, list) or len(value) > MAX_ITEMS:
            raise BadMessage(f"not a list of at most {MAX_ITEMS}")
        return tuple([unpack_item(one, body) for one in value])

    return pack, unpack


def _column(value: Any, *types: type) -> list[Any]:
    """A list of plain values, looked at together: there may be thousands in a message."""
    if not isinstance(value, list) or len(value) > MAX_ITEMS:
        raise BadMessage(f"not a list of at most {MAX_ITEMS}")
    wrong = set(map(type, value)).difference(types)
    if wrong:
        raise BadMessage(f"{_short(wrong.pop().__name__)} in a list of {types[0].__name__}")
    return value


def _texts(value: Any, _: Body) -> tuple[str, ...]:
    found = _column(value, str)
    if found and max(map(len, found)) > MAX_TEXT:
        raise BadMessage(f"not texts of at most {MAX_TEXT} characters")
    return tuple(found)


def _naturals(value: Any, _: Body) -> tuple[int, ...]:
    found = _column(value, int)
    if found and not (min(found) >= 0 and max(found) < 1 << 63):
        raise BadMessage("not whole numbers ≥ 0")
    return tuple(found)


def _numbers(value: Any, _: Body) -> tuple[float, ...]:
    found = _column(value, float, int)
    if not all(map(math.isfinite, found)):
        raise BadMessage("not finite numbers")
    return tuple(map(float, found))


def _pack_column(value: Any, _: list[bytes]) -> list[Any]:
    return list(value)


def _pack_pieces(value: Any, pieces: list[bytes]) -> list[int]:
    pieces.extend(value)
    return list(map(len, value))


def _unpack_pieces(value: Any, body: Body) -> tuple[bytes, ...]:
    return tuple(map(body.take, _naturals(value, body)))


_COLUMNS: dict[Any, tuple[Pack, Unpack]] = {
    str: (_pack_column, _texts),
    int: (_pack_column, _naturals),
    float: (_pack_column, _numbers),
    bytes: (_pack_pieces, _unpack_pieces),
}


def _for_dict(item: Any) -> tuple[Pack, Unpack]:
    pack_item, unpack_item = _for_type(item)

    def pack(value: Any, pieces: list[bytes]) -> dict[str, Any]:
        return {key: pack_item(one, pieces) for key, one in value.items()}

    def unpack(value: Any, body: Body) -> dict[str, Any]:
        if not isinstance(value, dict) or len(value) > MAX_ITEMS:
            raise BadMessage(f"not a map of at most {MAX_ITEMS}")
        return {_text(key, body): unpack_item(one, body) for key, one in value.items()}

    return pack, unpack


def _for_union(options: tuple[Any, ...]) -> tuple[Pack, Unpack]:
    """Unions of plain types only: the type of the value says which one is meant."""
    checks = {option: _CHECKS[option] for option in options if option is not type(None)}
    if float in checks:
        checks[int] = _whole  # a number the user chose, not a count of ours
    optional = type(None) in options

    def unpack(value: Any, body: Body) -> Any:
        if value is None and optional:
            return None
        check = checks.get(type(value))
        if check is None:
            raise BadMessage(f"{_short(value)} has none of the allowed types")
        return check(value, body)

    return _pack_plain, unpack
