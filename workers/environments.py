"""Puts attempts into the environments that this worker offers."""

import os
import shutil
import subprocess
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, NamedTuple

from loguru import logger

from grn_zmq.boxing import Box
from grn_zmq.context import Context
from grn_zmq.environments import BadEnvironment, Environment, Mount, Request
from grn_zmq.environments.catalogue import Catalogue
from grn_zmq.environments.requests import own_entries
from grn_zmq.parcels import find_parcels
from grn_zmq.paths import make_private
from grn_zmq.records import Offer, Run

from . import jobevents
from .devices.device import FRAMEWORK_DEFAULTS
from .surroundings import environment_of, placeholders_of

# For a service that has to end a container. One that hangs must not keep a worker for ever.
FAREWELL_S: Final = 10.0


@dataclass(frozen=True, slots=True)
class Wrapped:
    """An attempt that was put into its environment."""

    environment: Environment
    request: Request
    words: tuple[str, ...]
    directory: str


class Farewell(NamedTuple):
    """A command that ends what a killed attempt left, with its caller's variables."""

    words: Sequence[str] = ()
    variables: Mapping[str, str] | None = None


class Environments:
    """The environments of one worker, and its attempts that are in them."""

    def __init__(self, catalogue: Catalogue, incarnation: str) -> None:
        self._catalogue = catalogue
        self._incarnation = incarnation
        self._wrapped: dict[int, Wrapped] = {}

    @property
    def offers(self) -> tuple[Offer, ...]:
        """What the broker is told."""
        return self._catalogue.offers

    def enter(self, key: int, run: Run, context: Context, fixed: Mapping[str, str]) -> None:
        """Prepare the process of an attempt for its environment, if it has one.

        Args:
            fixed: Variables of the worker, on which promises to others rest.

        Raises:
            BadEnvironment: It is not offered here, or the attempt cannot be put there.
        """
        if not run.environment:
            return
        environment = self._catalogue.find(run.environment)
        if environment is None:
            offered = ", ".join(self._catalogue.names) or "none"
            raise BadEnvironment(
                f"its worker does not offer the environment {run.environment}; it offers "
                f"{offered}. See `grn environments`"
            )
        if environment.own_python and not os.access(environment.own_python, os.X_OK):
            raise BadEnvironment(
                f"the environment {run.environment}: there is no interpreter "
                f"{environment.own_python}; mend its table, see `grn environments`"
            )
        directory = self._make_box(run) if run.kind == "call" else ""
        try:
            request = request_of(run, context, fixed, directory)
            words = tuple(environment.words(request))
        except Exception as error:  # also of a kind that is not ours
            _remove(directory)
            raise BadEnvironment(f"the environment {run.environment}: {error}") from error
        self._wrapped[key] = Wrapped(environment, request, words, directory)

    def dressed(self, key: int, run: jobevents.Run) -> jobevents.Run:
        """Give a run as the job process gets it: with the words of its environment."""
        wrapped = self._wrapped.get(key)
        if wrapped is None:
            return run
        environment, request, words = wrapped.environment, wrapped.request, wrapped.words
        variables = {**environment.settings(request), **run.environment}
        if run.kind == "command":
            return replace(
                run, environment=variables, prefix=words, python=environment.own_python
            )
        words = (*words, environment.python)
        box = Box(environment.full_name, words, wrapped.directory, environment.apart)
        return replace(run, environment=variables, box=box)

    def leave(self, key: int, *, by_force: bool) -> Farewell:
        """Forget a process that is gone; give the command that ends what it may have left.

        Args:
            by_force: It did not end by itself.
        """
        wrapped = self._wrapped.pop(key, None)
        if wrapped is None:
            return Farewell()
        _remove(wrapped.directory)
        if not by_force:
            return Farewell()
        request = wrapped.request  # whose caller may have said where containers are
        return Farewell(wrapped.environment.farewell(request), request.surroundings)

    def _make_box(self, run: Run) -> str:
        directory = boxes() / f"{_box(self._incarnation)}-{run.job_id}-{run.attempt}"
        try:
            make_private(directory.parent)
            directory.mkdir(mode=0o700)
        except OSError as error:
            raise BadEnvironment(f"no room for its arguments: {error}") from error
        return str(directory)

    def clean_up(
        self, earlier: Collection[str], interrupted: Iterable[tuple[str, int]]
    ) -> None:
        """End what dead incarnations of this worker left in containers, and its files."""
        for incarnation in earlier:
            for directory in boxes().glob(f"{_box(incarnation)}-*"):
                _remove(str(directory))
        deadline = time.monotonic() + FAREWELL_S
        for job_id, attempt in interrupted:
            left = Request(container_name(job_id, attempt), os.getuid(), os.getgid(), "/")
            for words in {tuple(one.farewell(left)) for one in self._catalogue} - {()}:
                _say_farewell(words, max(0.0, deadline - time.monotonic()))


def container_name(job_id: str, attempt: int) -> str:
    """What containers of an attempt are called."""
    return f"grn-{job_id}-{attempt}"


def request_of(run: Run, context: Context, fixed: Mapping[str, str], directory: str) -> Request:
    """Say what an environment must know of an attempt.

    Args:
        directory: Where a call and its answer lie.
    """
    values = placeholders_of(run)
    on_gpu = any(one.label.startswith("nvml") for one in run.devices)
    tamed = {
        name: context.environment.get(name, value) for name, value in FRAMEWORK_DEFAULTS.items()
    }
    code = [Mount(entry) for entry in own_entries(context.sys_path) if os.path.isdir(entry)]
    box = [Mount(directory, writable=True)]
    return Request(
        name=container_name(run.job_id, run.attempt),
        uid=os.getuid(),
        gid=os.getgid(),
        cwd=context.cwd,
        devices=run.devices,
        variables={**(tamed if on_gpu else {}), **environment_of(run, values, fixed)},
        surroundings=context.environment,
        placeholders=values,
        mounts=(
            Mount(context.cwd, writable=True),
            *([*box, *code] if run.kind == "call" else []),
        ),
        stdin=bool(run.stdin),
    )


def boxes() -> Path:
    """Where calls are put that run in environments: in memory, if there is such a place."""
    parcels = find_parcels(os.environ)
    return parcels.shm if parcels.shm.parent.is_dir() else parcels.disk


def _box(incarnation: str) -> str:
    return f"box-{incarnation[:16]}"


def _remove(directory: str) -> None:
    if directory:
        shutil.rmtree(directory, ignore_errors=True)


def _say_farewell(words: tuple[str, ...], seconds: float) -> None:
    """End a container of a dead worker; that there is none is what we hope for."""
    try:
        subprocess.run(
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=seconds,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        logger.bind(facts={"why": str(error)}).warning("cannot look for containers left behind")
