"""`@grn.job()`: the decorated function, and everything it can do."""

import functools
import inspect
import sys
import types
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, cast, overload

from .naming import type_of_function
from .options import JobOptions

if TYPE_CHECKING:
    from .describing import Describer
    from .futures import Future

P = ParamSpec("P")
R = TypeVar("R")
F = TypeVar("F", bound=Callable[..., Any])


class JobFunction(Generic[P, R]):
    """A function whose calls are jobs. Made by `grn.job`."""

    # Not in `__dict__`: that is copied by whoever wraps a job, and may travel.
    __slots__ = ("__dict__", "__weakref__", "describer")

    describer: "Describer | None"
    __wrapped__: Callable[P, R]
    __name__: str
    __qualname__: str

    def __init__(self, function: Callable[P, R], options: JobOptions) -> None:
        _check_function(function, options)
        self._set_up(function, options, None)

    def _set_up(
        self,
        function: Callable[P, R],
        options: JobOptions,
        stand_in: Callable[..., Any] | None,
    ) -> None:
        # What an object or a class has of its own must not hide what a job has.
        copied = ("__dict__",) if isinstance(function, types.FunctionType) else ()
        functools.update_wrapper(self, function, updated=copied)
        self.__qualname__ = getattr(function, "__qualname__", type(function).__qualname__)
        self.grn_function = function
        self.options = options
        self.stand_in = stand_in
        self.job_type = options.type or type_of_function(function)
        self.describer = None
        if inspect.iscoroutinefunction(function):
            _mark_coroutine_function(self)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run the job and return its value, or raise its own exception.

        Raises:
            Exception: Whatever the function raised, its own frames in the traceback.
            JobError: The job ended otherwise: killed, exited, lost, at one of its limits.
            BrokerUnavailable: There is no broker, or none came back for a minute.
        """
        from . import calling

        return cast(R, calling.call(self, args, kwargs))

    def submit(self, *args: P.args, **kwargs: P.kwargs) -> "Future[R]":
        """Start the job and return its future at once."""
        from . import calling

        return calling.submit(self, args, kwargs)

    def spawn(self, *args: P.args, **kwargs: P.kwargs) -> str:
        """Hand the job over for good and return its id once the broker has it.

        It goes on when this process ends; `grn.attach(job_id)` finds it again.
        """
        from . import calling

        return calling.spawn(self, [(args, kwargs)])[0]

    def spawn_map(self, *iterables: Iterable[Any]) -> list[str]:
        """`spawn` for each item; returns the ids once the broker has them all."""
        from . import calling

        return calling.spawn(self, [(args, {}) for args in zip(*iterables, strict=False)])

    def map(self, *iterables: Iterable[Any], timeout: float | None = None) -> Iterator[R]:
        """Start a job per item and give their values in order.

        Args:
            timeout: Seconds until the last value, from now; None waits for ever.
        """
        from . import calling

        return calling.map_in_order(self, list(zip(*iterables, strict=False)), timeout)

    def local(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run the function here and now, without a broker."""
        return self.grn_function(*args, **kwargs)

    def profile(self, stand_in: F) -> F:
        """Register a cheaper function that is measured instead of the first real run.

        It gets the call's arguments. Returns the function itself, undecorated.
        """
        if self.stand_in is not None:
            raise AttributeError(
                f"{self.job_type} has the stand-in {self.stand_in.__qualname__} already; "
                f"{stand_in.__qualname__} cannot be another"
            )
        self.stand_in = stand_in
        return stand_in

    def with_options(self, **options: Any) -> "JobFunction[P, R]":
        """The same function with some options changed."""
        changed = JobFunction(self.grn_function, self.options.with_options(**options))
        changed.stand_in = self.stand_in
        return changed

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        return self if instance is None else BoundJob(self, instance)

    def __repr__(self) -> str:
        return f"<job {self.job_type}>"

    def __reduce__(self) -> str | tuple[Any, ...]:
        """By name where it can be imported, else by value; it may refer to itself."""
        if self.__module__ != "__main__" and _found_by_name(self):
            return self.__qualname__
        return _blank, (), (self.grn_function, self.options, self.stand_in)

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self._set_up(*state)


class BoundJob(Generic[P, R]):
    """A decorated method of one instance; the instance travels with each call."""

    def __init__(self, job: JobFunction[..., Any], instance: object) -> None:
        functools.update_wrapper(self, types.MethodType(job.grn_function, instance))
        self._job = job
        self.__self__ = instance

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._job(self.__self__, *args, **kwargs)

    def submit(self, *args: Any, **kwargs: Any) -> "Future[Any]":
        return self._job.submit(self.__self__, *args, **kwargs)

    def spawn(self, *args: Any, **kwargs: Any) -> str:
        return self._job.spawn(self.__self__, *args, **kwargs)

    def map(self, *iterables: Sequence[Any], timeout: float | None = None) -> Iterator[Any]:
        items = [(self.__self__, *args) for args in zip(*iterables, strict=False)]
        return self._job.map(*zip(*items, strict=True), timeout=timeout) if items else iter(())

    def local(self, *args: Any, **kwargs: Any) -> Any:
        return self._job.local(self.__self__, *args, **kwargs)

    @property
    def job_type(self) -> str:
        return self._job.job_type


@overload
def job(function: Callable[P, R], /) -> JobFunction[P, R]: ...
@overload
def job(**options: Any) -> Callable[[Callable[P, R]], JobFunction[P, R]]: ...
def job(function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
    """Make the calls of a function jobs that share this machine's devices.

    `@grn.job` and `@grn.job()` are the same. Options: type (also jobstr), name, by, policy
    (also resource_policy), memory, gpus, resources, priority, timeout, time_limit, grace,
    retries, retry_on, oom_retries, enforce, inline, reuse, env, when_unavailable (also
    continue_on_server_unavailable). Unknown or impossible ones fail here.
    """
    if function is not None and not callable(function):
        raise TypeError(f"grn.job decorates functions, not {function!r}")
    checked = JobOptions.parse(options)
    if function is not None:
        return JobFunction(function, checked)
    return lambda decorated: JobFunction(decorated, checked)


def _check_function(function: Callable[..., Any], options: JobOptions) -> None:
    if not callable(function):
        raise TypeError(f"grn.job decorates functions, not {function!r}")
    generates = inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function)
    if generates and not options.inline:
        raise TypeError(
            f"{function.__qualname__} is a generator: its items cannot travel one by one. "
            f"Return a list, or run it in this process with @grn.job(inline=True)"
        )
    if options.by:
        _check_by(function, options.by)


def _check_by(function: Callable[..., Any], names: tuple[str, ...]) -> None:
    parameters = inspect.signature(function).parameters
    if any(one.kind is one.VAR_KEYWORD for one in parameters.values()):
        return
    for name in names:
        if name not in parameters:
            raise TypeError(
                f"by={name!r} is no argument of {function.__qualname__}; "
                f"it has {', '.join(parameters) or 'none'}"
            )


def _found_by_name(job_function: JobFunction[..., Any]) -> bool:
    found: Any = sys.modules.get(job_function.__module__)
    for part in job_function.__qualname__.split("."):
        found = inspect.getattr_static(found, part, None) if found is not None else None
    return found is job_function


def _mark_coroutine_function(function: Any) -> None:
    """Let frameworks see that a call must be awaited; they ask before they call."""
    if sys.version_info >= (3, 12):
        inspect.markcoroutinefunction(function)
    else:
        import asyncio

        function._is_coroutine = asyncio.coroutines._is_coroutine  # type: ignore[attr-defined]


def _blank() -> JobFunction[..., Any]:
    return JobFunction.__new__(JobFunction)
