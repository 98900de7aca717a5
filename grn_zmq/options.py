"""The options of `@grn.job`, checked when decorating."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, Final

from . import hooktexts
from .limits import (
    DEFAULT_GRACE_S,
    MAX_NAME,
    MAX_PRIORITY,
    MAX_RETRIES,
    MAX_SECONDS,
    MAX_WORD,
)
from .naming import name_of_class
from .units import parse_bytes, parse_seconds

if TYPE_CHECKING:
    from .declared import Amount, Declared

_POLICIES: Final = {
    "spread": "spread",
    "spreading": "spread",
    "pack": "pack",
    "packing": "pack",
}
_UNAVAILABLE: Final = ("raise", "local")

# Why a job may be run again, other than for an exception of a class.
CAUSES: Final = ("lost", "time-limit", "killed", "exit")
# What happens to a body that runs in its caller is its caller's to decide.
_NOT_INLINE: Final = {
    "time_limit": "nobody could end it without ending its caller",
    "grace": "nobody ends it but its caller",
    "retries": "nobody else can run it again",
    "retry_on": "nobody else can run it again",
    "exclusive": "all that its caller does there shares the device with it",
    "on_end": "its caller sees the end of it",
    "environment": "that has the surroundings it has",
    "gpus": "has one GPU, shared by what was learned; grn.acquire(gpus=2) leases whole ones",
}
# What is about the memory of a device, and means nothing to a job that has none.
_NOT_WITHOUT_DEVICE: Final = ("memory", "enforce", "exclusive")

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
    gpus: "Amount" = 1
    resources: "Mapping[str, Amount]" = field(default_factory=dict)
    priority: int = 0
    oom_retries: int = 2
    timeout: float | str | None = None
    time_limit: float | str | None = None
    grace: float | str | None = None
    retries: int = 0
    retry_on: tuple[str, ...] = ()
    enforce: bool = False
    exclusive: bool = False
    on_end: str = ""
    inline: bool = False
    reuse: bool = True
    when_unavailable: str = "raise"
    env: Mapping[str, str] = field(default_factory=dict)
    environment: str = ""

    def __post_init__(self) -> None:
        _check(
            self.type is None or (_is_text(self.type) and self.type != ""),
            f"type={self.type!r} must be a printable text of 1 to 4096 characters",
        )
        _check(
            _is_text(self.name),
            f"name={self.name!r} must be a printable text of at most 4096 characters",
        )
        self._check_on_end()
        _check(
            all(isinstance(name, str) and name.isidentifier() for name in self.by),
            f"by={self.by!r} must be names of arguments, such as by=('batch_size',)",
        )
        _check(isinstance(self.memory, str), f"memory={self.memory!r} must be a text: '6GiB'")
        for option, least, most in (
            ("priority", -MAX_PRIORITY, MAX_PRIORITY),
            ("oom_retries", 0, MAX_RETRIES),
            ("retries", 0, MAX_RETRIES),
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
        for option in ("timeout", "time_limit", "grace"):
            self._check_time(option)
        self._check_declared()
        self._check_retry_on()
        for option in ("enforce", "exclusive", "inline", "reuse"):
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
        unset = {one.name: one.default for one in fields(self)}
        for option, why in _NOT_INLINE.items() if self.inline else ():
            if getattr(self, option) != unset[option]:
                raise ValueError(
                    f"inline=True and {option}= exclude each other: an inline job runs in its "
                    f"caller's own process, and {why}. Leave one of them out"
                )
        if self.when_unavailable not in _UNAVAILABLE:
            raise ValueError(
                f"when_unavailable={self.when_unavailable!r} must be 'raise' or 'local'"
            )
        _check(_is_environment(self.env), f"env={self.env!r} must map names to texts")
        _check(
            _is_text(self.environment) and " " not in self.environment,
            f"environment={self.environment!r} must be a name; `grn environments` lists them",
        )
        if len(self.environment) > MAX_WORD:
            raise ValueError(f"environment= is a name of at most {MAX_WORD} characters")

    @property
    def memory_bytes(self) -> int:
        """The first estimate of what the job needs; 0 if none was given."""
        return parse_bytes(self.memory) if self.memory else 0

    @property
    def timeout_s(self) -> float | None:
        """How long it may wait for a device; None for ever."""
        return None if self.timeout is None else parse_seconds(self.timeout)

    @property
    def time_limit_s(self) -> float | None:
        """How long each run may take; None for ever."""
        return None if self.time_limit is None else parse_seconds(self.time_limit)

    @property
    def grace_s(self) -> float:
        """How long it has between being asked to end and being killed."""
        return DEFAULT_GRACE_S if self.grace is None else parse_seconds(self.grace)

    @property
    def declared(self) -> "Declared":
        """The GPUs and named resources it needs, as they travel."""
        from .declared import declare

        return declare(self.gpus, self.resources)

    def _check_declared(self) -> None:
        if type(self.gpus) is int and self.gpus == 1 and self.resources == {}:
            return  # as nearly always, and known without importing anything
        found = self.declared
        for option in _NOT_WITHOUT_DEVICE if found.gpus == 0 else ():
            if getattr(self, option):
                raise ValueError(
                    f"gpus=0 and {option}= exclude each other: a job without a GPU has no "
                    "device memory. Leave one of them out"
                )
        if found.share and self.exclusive:
            raise ValueError(
                f"gpus={self.gpus} and exclusive=True exclude each other: a part of a GPU is "
                "shared. Leave gpus= out to have one alone"
            )

    def _check_time(self, option: str) -> None:
        value = getattr(self, option)
        if value is None:
            return
        _check(
            isinstance(value, int | float | str) and not isinstance(value, bool),
            f"{option}={value!r} must be seconds, or a text such as '15m'",
        )
        try:
            seconds = parse_seconds(value)
        except (ValueError, OverflowError) as error:
            raise ValueError(f"{option}={value!r}: {error}") from None
        if seconds > MAX_SECONDS or (option == "time_limit" and not seconds):
            least = "more than 0" if option == "time_limit" else "0"
            raise ValueError(f"{option}={value!r} must be from {least} to ten years")

    def _check_on_end(self) -> None:
        _check(
            _is_text(self.on_end),
            f"on_end={self.on_end!r} must be a printable text of at most 4096 characters",
        )
        if not hooktexts.can_be(self.on_end):
            raise ValueError(f"on_end={self.on_end!r} must be a command, or a URL with http")

    def _check_retry_on(self) -> None:
        named = all(isinstance(cause, str) and cause for cause in self.retry_on)
        _check(named, f"retry_on={self.retry_on!r} must be given through grn.job")
        if sum(map(len, self.retry_on)) > MAX_NAME:
            raise ValueError(f"retry_on= names more than {MAX_NAME} characters of causes")
        if self.retry_on and not self.retries:
            raise ValueError(
                "retry_on= says when to run a job again, but not how often: add retries=1 or "
                "more, or leave it out"
            )

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
        if "retry_on" in values:
            causes = values["retry_on"]
            listed = causes if isinstance(causes, list | tuple | set | frozenset) else (causes,)
            values["retry_on"] = tuple(map(_cause, listed))
        return replace(self, **values)


def _policy(value: object) -> str:
    if not isinstance(value, str) or value not in _POLICIES:
        raise ValueError(
            f"policy={value!r}: choose 'spread' (the emptiest device) or 'pack' (the fullest)"
        )
    return _POLICIES[value]


def _cause(value: object) -> str:
    """Name a cause as results do: the class of an exception, or one of our words."""
    if isinstance(value, type) and issubclass(value, BaseException):
        return name_of_class(value)
    if isinstance(value, str) and value in CAUSES:
        return value
    raise TypeError(
        f"retry_on={value!r}: give classes of exceptions, or of {', '.join(map(repr, CAUSES))}"
    )


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
