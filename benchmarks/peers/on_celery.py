"""celery with redis as broker and for results, forked workers, all else as it comes."""

import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from importlib import import_module
from typing import Any, Final

import redis

from benchmarks.peers.plain import Peer

# Where the redis of this measurement is.
URL: Final = "BENCH_REDIS_URL"
ANSWER_S: Final = 60.0
END_S: Final = 8.0
UP_S: Final = 10.0
LOOK_S: Final = 0.02


class OnCelery(Peer):
    def start(self, workers: int) -> None:
        port = _free_port()
        os.environ[URL] = f"redis://127.0.0.1:{port}/0"
        self._redis = _start_redis(port)
        app = ["-A", "benchmarks.peers.celery_app:app", "worker", "--loglevel=ERROR"]
        pool = ["-P", "prefork", "-c", str(workers)]
        self._workers = _run(sys.executable, "-m", "celery", *app, *pool)
        self._tasks = import_module("benchmarks.peers.celery_app").TASKS

    def submit(self, name: str, *args: Any) -> Any:
        return self._tasks[name].apply_async(args)

    def gather(self, handles: Sequence[Any]) -> list[Any]:
        return [one.get(timeout=ANSWER_S) for one in handles]

    def stop(self) -> None:
        for process in (self._workers, self._redis):
            process.terminate()
            try:
                process.wait(END_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
        return port


def _run(*words: str) -> "subprocess.Popen[bytes]":
    """Start it without its greetings: who measures reads what is printed here."""
    return subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)


def _start_redis(port: int) -> "subprocess.Popen[bytes]":
    """A redis of its own, that keeps nothing on disk."""
    nothing_kept = ["--save", "", "--appendonly", "no", "--daemonize", "no"]
    where = ["--port", str(port), "--bind", "127.0.0.1", "--dir", tempfile.mkdtemp(prefix="rd")]
    process = _run("redis-server", *where, *nothing_kept)
    until_s = time.monotonic() + UP_S
    while time.monotonic() < until_s:
        try:
            redis.Redis(port=port).ping()
            return process
        except redis.exceptions.ConnectionError:
            time.sleep(LOOK_S)
    process.kill()
    raise TimeoutError(f"redis-server is not there after {UP_S:.0f} s")


def make() -> Peer:
    return OnCelery()
