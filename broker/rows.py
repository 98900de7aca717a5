"""Jobs, their lives and their ends as rows of the state file, and back.

Every row ends with a checksum of what stands before it, so that a byte that a disk has
changed is noticed and not believed.
"""

import sys
from collections.abc import Callable, Sequence
from dataclasses import MISSING, fields
from functools import partial
from operator import attrgetter
from typing import Any, Final, Generic, TypeVar
from zlib import crc32

import msgpack

from grn_zmq.records import JobSpec, Outcome

from .changes import End, Life, NewJob

T = TypeVar("T")
Row = tuple[Any, ...]

# What is written alike again and again is decoded once; more kinds than this are rare.
_REMEMBERED: Final = 1024
# Names are shared between jobs; longer texts are mostly messages, each of its own.
_SHARED_TEXT: Final = 100

_NO_ARGUMENTS: Final[dict[str, Any]] = {}

_pack: Final[Callable[[Any], bytes]] = msgpack.Packer().pack
_unpack: Final = partial(msgpack.unpackb, use_list=False, strict_map_key=True)


class BadRow(Exception):
    """A row is not what was written; the text says which."""


def checksum(row: Sequence[Any]) -> int:
    return crc32(_pack(row))


def sealed(*values: Any) -> Row:
    """Give the values and their checksum, as they stand in a table."""
    return (*values, crc32(_pack(values)))


def opened(row: Row, what: str) -> Row:
    """Give the values of a row without the checksum.

    Raises:
        BadRow: They are not those that were written.
    """
    values = row[:-1]
    if crc32(_pack(values)) != row[-1]:
        raise BadRow(f"a row of {what} does not match its checksum")
    return values


class Form(Generic[T]):
    """How a dataclass becomes bytes and back, some of its fields apart.

    A field added at its end later gets its default when older bytes are read. Nothing is
    validated on the way back: that was done when it came in, and the checksum says the rest.
    """

    def __init__(self, cls: type[T], *apart: str) -> None:
        every = fields(cls)  # type: ignore[arg-type]
        kept = [one for one in every if one.name not in apart]
        self._cls = cls
        self._values = attrgetter(*(one.name for one in kept))
        self._make = _maker(cls, [*apart, *(one.name for one in kept)])
        self._defaults = [
            one.default if one.default_factory is MISSING else one.default_factory()
            for one in kept
        ]
        self._seen: dict[bytes, Row] = {}

    def pack(self, value: T) -> bytes:
        return _pack(self._values(value))

    def unpack(self, data: bytes, *apart: Any) -> T:
        """Build it anew, from these bytes and the fields kept apart, in their order."""
        values = self._seen.get(data) or self._decode(data)
        return self._make(*apart, *values)

    def _decode(self, data: bytes) -> Row:
        values = _unpack(data)
        missing = self._defaults[len(values) :]
        if MISSING in missing or len(values) > len(self._defaults):
            raise BadRow(f"a {self._cls.__name__} of {len(values)} fields")
        found = (*map(_shared, values), *missing)
        if len(self._seen) >= _REMEMBERED:
            self._seen.clear()
        self._seen[data] = found
        return found


def _maker(cls: type[T], names: list[str]) -> Callable[..., T]:
    """Make what builds an object of its fields and does nothing else.

    A broker that starts builds very many: this takes a third of what `cls` itself takes. The
    class is frozen, so its slots are filled as its own `__init__`, made in the same way, does.
    """
    known: dict[str, Any] = {f"put_{name}": getattr(cls, name).__set__ for name in names}
    known |= {"new": object.__new__, "cls": cls}
    puts = "".join(f"    put_{name}(made, {name})\n" for name in names)
    text = f"def make({', '.join(names)}):\n    made = new(cls)\n{puts}    return made\n"
    exec(text, known)
    make: Callable[..., T] = known["make"]
    return make


def _shared(value: Any) -> Any:
    return sys.intern(value) if type(value) is str and len(value) <= _SHARED_TEXT else value


# What equal jobs differ in; all else is the same bytes for all of them.
_OWN: Final = (
    "name", "by", "token", "title", "variables", "after", "after_any", "again_of", "resources",
)  # fmt: skip
_own_of = attrgetter(*_OWN)
# What a row has that was written before such fields were added.
_OWN_BEFORE: Final[Row] = ("", {}, "", "", {}, (), (), "", {})
_SPEC: Final = Form(JobSpec, "job_id", "payload", *_OWN)
LIFE_FORM: Final = Form(Life, "job_id", "attempt", "state")
_OUTCOME: Final = Form(Outcome, "job_id", "outcome", "payload")


def job_row(new: NewJob, uid: int, to_wall_s: float, boot: int) -> Row:
    """Give the row of a job; `to_wall_s` makes of our clock the one on the wall."""
    spec = new.spec
    return sealed(
        new.number,
        spec.job_id,
        new.session,
        uid,
        float(new.queued_at),
        new.queued_at + to_wall_s,
        boot,
        new.digest,
        len(spec.payload),
        crc32(spec.payload),
        *packed_spec(spec),
    )


def packed_spec(spec: JobSpec) -> tuple[bytes, bytes]:
    """Give what is to be done: what equal jobs share, and what each has of its own."""
    return _SPEC.pack(spec), _pack(_own_of(spec))


def spec_maker(spec: bytes, own: bytes) -> Callable[[str], JobSpec]:
    """Give what makes of an id the description of a job, read from what was packed."""
    written: Row = _unpack(own)
    name, by, *others = (*written, *_OWN_BEFORE[len(written) :])
    name, by = sys.intern(name), by or _NO_ARGUMENTS
    return lambda job_id: _SPEC.unpack(spec, job_id, b"", name, by, *others)


def job_of(values: Row, queued_at: float) -> NewJob:
    """Read what `job_row` wrote, the payload left out."""
    number, job_id, session, _, _, _, _, digest, _, _, spec, own = values
    found = spec_maker(spec, own)(job_id)
    return NewJob(found, number, sys.intern(session), queued_at, digest)


def life_row(number: int, life: Life) -> Row:
    return sealed(number, life.attempt, life.state, LIFE_FORM.pack(life))


def life_of(values: Row, job_id: str) -> Life:
    _, attempt, state, facts = values
    return LIFE_FORM.unpack(facts, job_id, attempt, sys.intern(state))


def end_row(number: int, end: End, to_wall_s: float, boot: int) -> Row:
    """Give the row of an outcome, but for whether its result has expired."""
    outcome = end.outcome
    return sealed(
        number,
        end.attempt,
        outcome.outcome,
        float(end.ended_at),
        end.ended_at + to_wall_s,
        boot,
        len(outcome.payload),
        crc32(outcome.payload),
        _OUTCOME.pack(outcome),
    )


def end_of(values: Row, job_id: str, ended_at: float) -> End:
    _, attempt, word, *_, facts = values
    outcome = _OUTCOME.unpack(facts, job_id, sys.intern(word), b"")
    return End(job_id, attempt, outcome, ended_at)


def expiry_mark(number: int) -> int:
    """What stands in the row of an expired result instead of 0; no single flip makes it."""
    return checksum((number, "expired"))
