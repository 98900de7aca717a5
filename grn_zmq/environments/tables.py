"""From the `[environments.NAME]` tables of a file to environments. Pure."""

import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, fields
from typing import Any, Final, get_type_hints

from ..limits import MAX_WORD
from .catalogue import Catalogue
from .environment import KINDS, BadEnvironment, Environment

TABLE: Final = "environments"
_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*")
_VERSION: Final = re.compile(r"[A-Za-z0-9_.+-]+")

FindKind = Callable[[str], type[Environment] | None]


class _CannotBe(ValueError):
    """A value of the wrong form; the text says what to write."""


def parse_environments(content: Mapping[str, Any], file: str, find_kind: FindKind) -> Catalogue:
    """Read the tables of a file.

    Args:
        find_kind: Gives the class of a kind that is not one of ours; None if there is none.

    Raises:
        BadEnvironment: One cannot be; the text names file, table and key.
    """
    tables = content.get(TABLE)
    if not isinstance(tables, Mapping):
        raise BadEnvironment(
            f"{file}: {TABLE} = {_shown(tables)} cannot be: write tables, [{TABLE}.NAME]"
        )
    found = [_environment(*one, file, find_kind) for one in _each(tables, file)]
    try:
        return Catalogue(found)
    except ValueError as error:
        raise BadEnvironment(
            f"{file}: two environments are called {error}: give each a version of its own"
        ) from None


def _each(tables: Mapping[str, Any], file: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The name and content of each table; [[environments.NAME]] may stand there repeatedly."""
    for name, value in tables.items():
        for table in value if isinstance(value, list) else [value]:
            if not isinstance(table, Mapping):
                raise BadEnvironment(
                    f"{file}: {TABLE}.{name} = {_shown(value)} cannot be: write a table, "
                    f"[{TABLE}.{name}]"
                )
            yield name, table


def _environment(
    name: str, table: Mapping[str, Any], file: str, find_kind: FindKind
) -> Environment:
    where = f"{file}: [{TABLE}.{name}]"
    if not _NAME.fullmatch(name) or len(name) > MAX_WORD // 2:
        raise BadEnvironment(
            f"{where}: {name!r} cannot be a name: write letters, digits, - . + or _, "
            f"at most {MAX_WORD // 2} of them"
        )
    kind = _kind(table, where, find_kind)
    keys = [one.name for one in fields(kind) if one.name != "name"]
    values: dict[str, Any] = {}
    hints = get_type_hints(kind)
    for key, value in table.items():
        if key == "kind":
            continue
        if key not in keys:
            raise BadEnvironment(
                f"{where}: there is no key {key}; of kind {kind.kind} it has kind, "
                f"{', '.join(keys)}"
            )
        values[key] = _value(key, value, hints[key], where)
    for one in fields(kind):
        unset = one.default is MISSING and one.default_factory is MISSING
        if unset and one.name != "name" and one.name not in values:
            raise BadEnvironment(f"{where} has no {one.name}: add {one.name} = …")
    return _checked(kind(name=name, **values), where)


def _kind(table: Mapping[str, Any], where: str, find_kind: FindKind) -> type[Environment]:
    known = ", ".join(KINDS)
    if "kind" not in table:
        raise BadEnvironment(f"{where} has no kind: add kind = …, one of {known}")
    name = table["kind"]
    found = None
    try:
        if isinstance(name, str):
            found = KINDS.get(name) or find_kind(name)
    except BadEnvironment as error:
        raise BadEnvironment(f"{where} {error}") from None
    if found is None:
        raise BadEnvironment(
            f"{where} kind = {_shown(name)} cannot be: write one of {known}, or module:Class "
            f"for a kind of your own"
        )
    return found


def _value(key: str, value: Any, hint: Any, where: str) -> Any:
    reader = _READERS.get(hint)
    try:
        if reader is None:
            raise _CannotBe("nothing: its type is none that a table has")
        return reader(value)
    except _CannotBe as error:
        raise BadEnvironment(
            f"{where} {key} = {_shown(value)} cannot be: write {error}"
        ) from None


def _checked(one: Environment, where: str) -> Environment:
    problem = one.problem()
    if one.version and not (
        _VERSION.fullmatch(one.version) and len(one.version) < MAX_WORD // 2
    ):
        problem = ("version", "letters, digits, - . + or _, such as 1.4.0")
    for name, text in one.variables.items():
        if not name or "=" in name or "\0" in name + text:
            problem = ("variables", "names without = and texts")
    if problem is None:
        return one
    key, wanted = problem
    shown = _shown(getattr(one, key))
    raise BadEnvironment(f"{where} {key} = {shown} cannot be: write {wanted}")


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value.isprintable():
        raise _CannotBe("a text, in quotes")
    return value


def _boolean(value: Any) -> bool:
    if not isinstance(value, bool):
        raise _CannotBe("true or false")
    return value


def _whole(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise _CannotBe("a whole number")
    return value


def _words(value: Any) -> tuple[str, ...]:
    """A list of texts, or one text that is split as a shell does it."""
    try:
        if isinstance(value, str):
            return tuple(shlex.split(value))
        if isinstance(value, list):
            return tuple(map(_text, value))
    except ValueError:
        pass
    raise _CannotBe("words, as one text or as a list of texts")


def _texts(value: Any) -> Mapping[str, str]:
    if not isinstance(value, Mapping) or not all(
        isinstance(one, str) for one in value.values()
    ):
        raise _CannotBe('names and texts, such as { TF_CPP_MIN_LOG_LEVEL = "2" }')
    return dict(value)


_READERS: Final[Mapping[Any, Callable[[Any], Any]]] = {
    str: _text,
    bool: _boolean,
    int: _whole,
    tuple[str, ...]: _words,
    Mapping[str, str]: _texts,
}


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f"{list(value) if isinstance(value, tuple) else value!r:.80}"
