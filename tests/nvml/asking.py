"""Processes for tests of the stand-in: one that asks NVML, and one that uses a GPU."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.nvml.driver import TORCH_STUB, FakeDriver

_QUESTION = """
import json, pynvml
from pynvml import *
def gpu(index): return nvmlDeviceGetHandleByIndex(index)
def used(index): return nvmlDeviceGetMemoryInfo(gpu(index)).used >> 20
def listed(index):
    found = nvmlDeviceGetComputeRunningProcesses(gpu(index))
    return {one.pid: one.usedGpuMemory and one.usedGpuMemory >> 20 for one in found}
def error(function, *arguments):
    try: function(*arguments)
    except NVMLError as problem: return problem.value
"""

# Reads an expression per line; answers with its value, or with what it raised.
_JOB = """
import ast, json, os, sys
for line in sys.stdin:
    try:
        tree = ast.parse(json.loads(line))
        *before, last = tree.body
        exec(compile(ast.Module(before, []), "job", "exec"))
        answer = {"value": eval(compile(ast.Expression(last.value), "job", "eval"))}
    except Exception as problem:
        name = f"{type(problem).__module__}.{type(problem).__name__}"
        answer = {"raised": [name, str(problem)]}
    print(json.dumps(answer), flush=True)
"""

DEADLINE_S = 20.0


def ask(driver: FakeDriver, expression: str, *, init: bool = True) -> Any:
    """Evaluate an expression in a process that sees the driver through nvidia-ml-py.

    Keys of dicts come back as text: the answer is JSON. `gpu`, `used`, `listed` and
    `error` above are at hand.
    """
    start = "nvmlInit()\n" if init else ""
    done = subprocess.run(
        [sys.executable, "-c", f"{_QUESTION}{start}print(json.dumps({expression}))"],
        env={**os.environ, **driver.environment()},
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
    )
    if done.returncode:
        raise AssertionError(done.stderr)
    return json.loads(done.stdout)


def until(condition: Callable[[], bool]) -> None:
    """Wait for a condition, and fail when it does not come."""
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come true"
        time.sleep(0.01)


class Raised(Exception):
    """What a job process raised: the full name of its class, and its text."""

    def __init__(self, name: str, text: str) -> None:
        super().__init__(f"{name}: {text}")
        self.name = name
        self.text = text


class JobProcess:
    """A process that does what it is told on the GPUs; it ends with the `with` block."""

    def __init__(self, driver: FakeDriver, **variables: str) -> None:
        # Not the project's root: what a job imports must work from its own folder.
        path = os.pathsep.join([str(TORCH_STUB), str(Path(__file__).parent)])
        # Nor the choice of devices that the tests themselves may have been started with.
        outside = {key: text for key, text in os.environ.items() if not key.startswith("CUDA_")}
        self.process = subprocess.Popen(
            [sys.executable, "-c", _JOB],
            env={**outside, **driver.environment(), "PYTHONPATH": path, **variables},
            cwd="/",
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.pid = self.process.pid

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with self.process:
            self.process.kill()

    def do(self, code: str) -> Any:
        """Run statements and return the value of the last, or raise `Raised`."""
        self.tell(code)
        return self.answer()

    def tell(self, code: str) -> None:
        """Start `code` without waiting for it."""
        assert self.process.stdin
        print(json.dumps(code), file=self.process.stdin, flush=True)

    def answer(self) -> Any:
        """Wait for the value of what was told last, or raise `Raised`."""
        assert self.process.stdout
        answer = json.loads(self.process.stdout.readline())
        if "raised" in answer:
            raise Raised(*answer["raised"])
        return answer["value"]

    def alloc(self, mib: int, device: int = 0) -> None:
        self.do(f"import cuda; cuda.alloc({mib}, {device})")
