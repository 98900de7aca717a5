"""From a call to a job: what travels, under which name, and in whose context."""

import inspect
import os
import pickle
import random
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from typing import Any, Final

from .codec import MAX_BODY_BYTES
from .errors import TooLarge
from .limits import parcel_from
from .naming import version_of_function
from .options import JobOptions
from .parcels import find_parcels
from .payload import PROTOCOL, digest, dump_arguments, dump_function
from .plain import is_plain
from .records import Blob, JobSpec, Scalar, require_scalar
from .surroundings import surroundings
from .templates import NO_ID, Template

# The inline job this code runs in, if any; a shipped one names itself in the environment.
inline_job: ContextVar[str] = ContextVar("inline_job", default="")

# A blob travels in one message, whose body has this limit.
MAX_BLOB_BYTES: Final = MAX_BODY_BYTES


def new_id() -> str:
    """128 random bits. Not from the system each time: that lets other threads go first."""
    return f"{_random.getrandbits(128):032x}"


def _seed() -> None:
    global _random
    _random = random.Random(os.urandom(64))


_random: random.Random
_seed()
# A child must not make the ids that its parent makes.
os.register_at_fork(after_in_child=_seed)


def parent_id() -> str:
    """The job this code is part of, or nothing."""
    return inline_job.get() or os.environ.get("GRN_JOB_ID", "")


def describe_call(
    function: Callable[..., Any],
    stand_in: Callable[..., Any] | None,
    job_type: str,
    options: JobOptions,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    *,
    detached: bool = False,
    session: Callable[[], str],
) -> tuple[JobSpec, tuple[Blob, ...]]:
    """Give the job of one call, and the blobs it shares with others.

    Args:
        session: Whose arguments they are, asked only if they are so large that they are
            written to a file.

    Raises:
        NotPicklable: A value cannot travel; the text names it.
        TooLarge: The function is larger than a message may be.
        DiskFull: There is no room for large arguments.
    """
    code = ship(function, stand_in)
    context = context_blob(options.env)
    by = bind_by(function, options.by, args, kwargs)  # before large arguments are written
    like = describe(
        code,
        context,
        job_type=job_type,
        options=options,
        by=by,
        parent=parent_id(),
        detached=detached,
        has_stand_in=stand_in is not None,
        version=version_of_function(function),
    )
    payload, token = pack_arguments(args, kwargs, function, session, detached)
    return Template(like, ()).spec(new_id(), payload, token), (code, context)


def ship(function: Callable[..., Any], stand_in: Callable[..., Any] | None) -> Blob:
    """Pickle a function and its stand-in."""
    shipped = dump_function(function, stand_in)
    if len(shipped) > MAX_BLOB_BYTES:
        raise TooLarge("the function", len(shipped), MAX_BLOB_BYTES)
    return Blob(digest(shipped), shipped)


def describe(
    code: Blob,
    context: Blob,
    *,
    job_type: str,
    options: JobOptions,
    by: dict[str, Scalar],
    parent: str,
    detached: bool,
    has_stand_in: bool,
    version: str,
) -> JobSpec:
    """Describe calls, all but the id and the arguments."""
    declared = options.declared
    return JobSpec(
        job_id=NO_ID,
        job_type=job_type,
        name=options.name,
        kind="call",
        by=by,
        policy=options.policy,
        function=code.digest,
        context=context.digest,
        parent=parent,
        pin="",
        stdin="",
        detached=detached,
        has_stand_in=has_stand_in,
        reuse=options.reuse,
        version=version,
        memory_bytes=options.memory_bytes,
        priority=options.priority,
        oom_retries=options.oom_retries,
        enforce=options.enforce,
        payload=b"",
        timeout_s=options.timeout_s,
        time_limit_s=options.time_limit_s,
        retries=options.retries,
        retry_on=options.retry_on,
        grace_s=options.grace_s,
        exclusive=options.exclusive,
        on_end=options.on_end,
        gpus=declared.gpus,
        share=declared.share,
        resources=dict(declared.resources),
        environment=options.environment,
        # An environment may have none of the caller's variables but those it is told of.
        variables=dict(options.env) if options.environment else {},
    )


def pack_arguments(
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    function: Callable[..., Any],
    session: Callable[[], str],
    detached: bool,
) -> tuple[bytes, str]:
    """Give the pickled arguments, or the token of a file if they are large."""
    if is_plain(args) and is_plain(kwargs.values()):
        return pickle.dumps((args, kwargs), PROTOCOL), ""  # as cloudpickle would
    packed = dump_arguments(args, kwargs, function)
    if packed.size_bytes < parcel_from(detached=detached):
        return packed.joined(), ""
    where = "disk" if detached else "shm"
    return b"", find_parcels(os.environ).pack(*packed, session(), where)


def drop_arguments(spec: JobSpec | None) -> None:
    """Let go of the large arguments of a job that no broker has taken."""
    if spec is not None and spec.token:
        find_parcels(os.environ).remove(spec.token)


def bind_by(
    function: Callable[..., Any],
    names: tuple[str, ...],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
) -> dict[str, Scalar]:
    """Give the values of the arguments that change the memory need; None by its name."""
    if not names:
        return {}
    signature = inspect.signature(function)
    bound = signature.bind(*args, **kwargs)
    bound.apply_defaults()
    given = dict(bound.arguments)
    for parameter in signature.parameters.values():
        if parameter.kind is parameter.VAR_KEYWORD:
            given |= given.pop(parameter.name)
    for name in names:
        if name not in given:
            raise TypeError(
                f"by={name!r}: this call does not give it; it has {', '.join(given)}"
            )
    return {name: _scalar(name, given[name]) for name in names}


def _scalar(name: str, value: Any) -> Scalar:
    if hasattr(value, "item") and not isinstance(value, int | float | str):
        value = value.item()  # a number of numpy or torch
    if value is None:
        return "None"  # a common default, and a value of its own
    if not isinstance(value, int | float | str):
        raise TypeError(
            f"by={name!r}: its value must be a number or a text, not {type(value).__name__}"
        )
    try:
        require_scalar(value)
    except ValueError as error:
        raise ValueError(f"by={name!r}: {error}") from None
    return value


def context_blob(extra: Mapping[str, str], cwd: str = "") -> Blob:
    """Give this process's context; made anew only when something in it has changed.

    Args:
        cwd: Another directory to run in; nothing for that of this process.
    """
    blob = surroundings().context(extra, cwd)
    if len(blob.data) > MAX_BLOB_BYTES:
        raise TooLarge("the environment of the job", len(blob.data), MAX_BLOB_BYTES)
    return blob
