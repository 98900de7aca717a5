"""From what was asked for to jobs: each command, for each point of its grid."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import click

from ...codec import MAX_TEXT
from ...declared import Declared
from ...options import JobOptions
from ...records import Scalar, require_scalar
from ..scalars import value_of
from .commands import CommandLine, title_of
from .sweeps import INDEX_NAMES, INDEX_VARIABLE, fill, grid, names_in, type_of_grid

_OPTIONS: Final = (
    *("name", "memory", "priority", "oom_retries", "timeout", "time_limit", "retries"),
    *("grace", "enforce", "exclusive", "on_end", "gpus", "environment"),
)


@dataclass(frozen=True, slots=True)
class Asked:
    """What the options of a verb say of each command. `array` is None without one."""

    options: JobOptions
    declared: Declared
    env: Mapping[str, str]
    by: Mapping[str, str | None]
    cwd: str
    params: Mapping[str, Sequence[str]]
    array: Sequence[int] | None
    after: tuple[str, ...]
    after_any: tuple[str, ...]
    begin_s: float | None
    held: bool

    @classmethod
    def of(cls, given: Mapping[str, Any], declared: Declared | None = None) -> "Asked":
        """Take the values of click; what a verb does not have is as if nobody had asked.

        Args:
            declared: What a job of a queue needs; None leaves that to its options.

        Raises:
            UsageError: Options contradict each other.
        """
        picked = {name: given[name] for name in _OPTIONS if name in given}
        picked["resources"] = dict(given.get("resources", ()))
        try:
            options = JobOptions(type=given["job_type"], **picked)
        except ValueError as error:
            raise click.UsageError(str(error)) from None
        return cls(
            options=options,
            declared=declared or options.declared,
            env={**dict(given.get("envlist", ())), **dict(given["env"])},
            by=dict(given["by"]),
            cwd=given["cwd"] or "",
            params=dict(given.get("params", ())),
            array=given.get("array"),
            after=tuple(given.get("after", ())),
            after_any=tuple(given.get("after_any", ())),
            begin_s=given.get("begin"),
            held=given.get("hold", False),
        )


@dataclass(frozen=True, slots=True)
class CommandJob:
    """One command as a job that no broker has heard of. `after` are references, not ids."""

    words: tuple[str, ...]
    job_type: str
    options: JobOptions
    by: Mapping[str, Scalar]
    variables: Mapping[str, str]
    cwd: str
    declared: Declared
    after: tuple[str, ...] = ()
    after_any: tuple[str, ...] = ()
    begin_s: float | None = None
    held: bool = False

    @property
    def title(self) -> str:
        """The command line, for people."""
        return title_of(self.words)


def plan(line: CommandLine, asked: Asked) -> list[CommandJob]:
    """Give the jobs of one command, in the order of its grid.

    Raises:
        UsageError: A name has no use or no value, or there are too many jobs.
    """
    env = {**asked.env, **line.variables}
    _check_used(line, asked, env)
    try:
        points = grid(asked.params, asked.array)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    names = [*asked.params, *(INDEX_NAMES if asked.array is not None else ())]
    job_type = asked.options.type or type_of_grid(line.words, names)
    return [_job(line.words, job_type, env, asked, point) for point in points]


def _check_used(line: CommandLine, asked: Asked, env: Mapping[str, str]) -> None:
    options = asked.options
    used = names_in((*line.words, *env.values(), options.name, options.type or ""))
    for name in asked.params:
        if name in asked.declared.resources:
            raise click.UsageError(
                f"--param {name}: {{{name}}} is filled in by the lease when a job starts, "
                f"because it needs the resource {name}: take another name"
            )
        if name not in used:
            raise click.UsageError(
                f"--param {name}: {{{name}}} occurs nowhere in: {title_of(line.words)}; write "
                f"{{{name}}} where its values shall stand, or leave --param {name} out"
            )


def _job(
    words: Sequence[str],
    job_type: str,
    env: Mapping[str, str],
    asked: Asked,
    point: Mapping[str, str],
) -> CommandJob:
    variables = {name: fill(value, point) for name, value in env.items()}
    if asked.array is not None:
        variables[INDEX_VARIABLE] = point[INDEX_NAMES[0]]
    _check_variables(variables)
    options = _filled(asked.options, point)
    return CommandJob(
        words=tuple(fill(word, point) for word in words),
        job_type=options.type or job_type,
        options=options,
        by=_by(asked.by, point),
        variables=variables,
        cwd=asked.cwd,
        declared=asked.declared,
        after=asked.after,
        after_any=asked.after_any,
        begin_s=asked.begin_s,
        held=asked.held,
    )


def _filled(options: JobOptions, point: Mapping[str, str]) -> JobOptions:
    """The same with the values of this point in its name and type."""
    name, job_type = fill(options.name, point), fill(options.type or "", point) or None
    if (name, job_type) == (options.name, options.type):
        return options
    try:
        return options.with_options(name=name, type=job_type)
    except (TypeError, ValueError) as error:
        raise click.UsageError(str(error)) from None


def _check_variables(variables: Mapping[str, str]) -> None:
    """Refuse what could not be sent to the broker."""
    for name, value in variables.items():
        if len(name) > MAX_TEXT or len(value) > MAX_TEXT:
            raise click.UsageError(
                f"the variable {name[:40]} has {len(value):,} characters: at most {MAX_TEXT:,}"
            )
        try:
            (name + value).encode()
        except UnicodeEncodeError:
            raise click.UsageError(
                f"the variable {name[:40]!r} must be text in UTF-8: {value[:40]!r}"
            ) from None


def _by(by: Mapping[str, str | None], point: Mapping[str, str]) -> dict[str, Scalar]:
    values: dict[str, Scalar] = {}
    for name, text in by.items():
        if text is None and name not in point:
            raise click.UsageError(
                f"--by {name}: no --param has this name. Add --param {name}=…, or give its "
                f"value: --by {name}=32"
            )
        value = value_of(point[name] if text is None else fill(text, point))
        try:
            require_scalar(value)
        except ValueError as error:
            raise click.UsageError(f"--by {name}: {error}") from None
        values[name] = value
    return values
