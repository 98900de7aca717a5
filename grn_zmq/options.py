"""The options of `@grn.job`, checked when decorating."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Final

from .limits import MAX_NAME, MAX_PRIORITY, MAX_RETRIES
from .units import parse_bytes

_POLICIES: Final = {
    "spread": "spread",
    "spreading": "spread",
    "pack": "pack",
    "packing": "pack",
}
_UNAVAILABLE: Final = ("raise", "local")

# Names the ancestors of this package used; each says the same as the option it stands for.
_ALIASES: Final = {"jobstr": "type", "resource_policy": "policy"}


@dataclass(frozen=True, slots=True)
class JobOptions:
    """What may be said about a job. See the README for what each does."""

    type: str | None = None
    name: str = ""
    by: tuple[str, ...] = ()
    policy: str = "spread"
    memory: str = ""
    priority: int = 0
    oom_retries: int = 2
    enforce: bool = False
    inline: bool = False
    reuse: bool = True
    when_unavailable: str = "raise"
    env: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        _check(
            self.type is None or (_is_text(self.type) and self.type != ""),
            f"type={self.type!r} must be a printable text of 1 to 4096 characters",
        )
        _check(
            _is_text(self.name),
            f"name={self.name!r} must be a printable text of at most 4096 characters",
        )
        _check(
            all(isinstance(name, str) and name.isidentifier() for name in self.by),
            f"by={self.by!r} must be names of arguments, such as by=('batch_size',)",
        )
        _check(isinstance(self.memory, str), f"memory={self.memory!r} must be a text: '6GiB'")
        for option, least, most in (
            ("priority", -MAX_PRIORITY, MAX_PRIORITY),
            ("oom_retries", 0, MAX_RETRIES),
        ):
            value = getattr(self, option)
            _check(
                isinstance(value, int) and not isinstance(value, bool),
                f"{option}={value!r} must be a whole number",
            )
            if not least <= value <= most:
                raise ValueError(f"{option}={value!r} must be within {least} and {most}")
        try:
            size = self.memory_bytes
        except ValueError as error:
            raise ValueError(f"memory={self.memory!r}: {error}") from None
        if size >= 2**63:
            raise ValueError(f"memory={self.memory!r} is more than any device has")
        for option in ("enforce", "inline", "reuse"):
            _check(
                isinstance(getattr(self, option), bool),
                f"{option}={getattr(self, option)!r} must be True or False",
            )
        if self.inline and self.enforce:
            raise ValueError(
                "inline=True and enforce=True exclude each other: an inline job runs in its "
                "caller's own process, and a cap would hold for all the caller does. Leave "
                "one of them out"
            )
        if self.when_unavailable not in _UNAVAILABLE:
            raise ValueError(
                f"when_unavailable={self.when_unavailable!r} must be 'raise' or 'local'"
            )
        _check(_is_environment(self.env), f"env={self.env!r} must map names to texts")

    @property
    def memory_bytes(self) -> int:
        """The first estimate of what the job needs; 0 if none was given."""
        return parse_bytes(self.memory) if self.memory else 0

    @classmethod
    def parse(cls, given: Mapping[str, Any]) -> "JobOptions":
        """Check what the user wrote.

        Raises:
            TypeError: An option that does not exist, or a value of the wrong type.
            ValueError: A value that is not one of those allowed.
        """
        return cls()._with(given)

    def with_options(self, **given: Any) -> "JobOptions":
        """The same options with some changed."""
        return self._with(given)

    def _with(self, given: Mapping[str, Any]) -> "JobOptions":
        known = [one.name for one in fields(self)]
        values: dict[str, Any] = {}
        for name, value in given.items():
            if name == "continue_on_server_unavailable":
                name, value = "when_unavailable", "local" if value else "raise"
            name = _ALIASES.get(name, name)
            if name not in known:
                raise TypeError(f"unknown option {name}=; there are {', '.join(known)}")
            if name in values:
                raise TypeError(f"option {name}= is given twice")
            values[name] = value
        if "policy" in values:
            values["policy"] = _policy(values["policy"])
        if "by" in values:
            by = values["by"]
            values["by"] = tuple(by) if isinstance(by, list | tuple) else (by,)
        return replace(self, **values)


def _policy(value: object) -> str:
    if not isinstance(value, str) or value not in _POLICIES:
        raise ValueError(
            f"policy={value!r}: choose 'spread' (the emptiest device) or 'pack' (the fullest)"
        )
    return _POLICIES[value]


def _is_text(value: object) -> bool:
    return isinstance(value, str) and len(value) <= MAX_NAME and value.isprintable()


def _is_environment(value: object) -> bool:
    """Whether the operating system would take these variables."""
    return isinstance(value, Mapping) and all(
        isinstance(name, str)
        and isinstance(text, str)
        and name != ""
        and not {"=", "\0"} & set(name)
        and "\0" not in text
        for name, text in value.items()
    )


def _check(fine: bool, text: str) -> None:
    if not fine:
        raise TypeError(text)
