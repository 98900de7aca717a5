"""A proxy between the broker and everybody else: it delays, cuts, loses and repeats."""

import asyncio
import json
import os
import random
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from grn_zmq.paths import Places
from tests.faults.zmtp import Stream

CHUNK_BYTES: Final = 1 << 16
# Of what was said last, so much may come again; and as late as this.
MOST_AGAIN: Final = 8
LATE_S: Final = (0.05, 0.6)


@dataclass
class Mood:
    """What becomes of what passes; may change meanwhile."""

    # Each connection is made late, and each piece passed on late, by up to so much. But not
    # while two sockets greet each other: who takes two seconds for that is cut off.
    delay_s: float = 0.0
    # Of a hundred pieces so many are the last of their connection, which gets a part of them.
    cuts_percent: float = 0.0
    # So many of those cuts leave the other direction open for a moment.
    half_percent: float = 0.0
    # After so many of a hundred pieces to the broker, a message comes again.
    repeats_percent: float = 0.0
    # So many of the cuts on the way to the broker leave it open there: what was said last comes
    # again, in another order, when its sender has long connected anew.
    late_percent: float = 0.0


class Said:
    """The last messages of one connection, those that may come again."""

    def __init__(self) -> None:
        self._stream = Stream()
        self.last: deque[bytes] = deque(maxlen=MOST_AGAIN)

    def feed(self, data: bytes) -> None:
        self.last += self._stream.feed(data)

    @property
    def has_begun(self) -> bool:
        return self._stream.has_begun

    @property
    def can_be_repeated(self) -> bool:
        return self._stream.between_messages and bool(self.last)


class Proxy:
    """One socket file, and everybody who comes in by it, in a thread of its own."""

    def __init__(self, path: Path, target: Path, mood: Mood, seed: int = 0) -> None:
        self._path, self._target, self._mood = path, target, mood
        self._chance = random.Random(seed)
        self._loop = asyncio.new_event_loop()
        self._open: set[asyncio.StreamWriter] = set()
        self.connections = 0
        self.cuts = 0
        self.repeats = 0
        self.late = 0
        ready = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(ready,), daemon=True)
        self._thread.start()
        ready.wait()

    def close(self) -> None:
        """Cut everybody off."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._path.unlink(missing_ok=True)

    def cut_all(self) -> None:
        """End every connection now, wherever in a message it is."""
        self._loop.call_soon_threadsafe(self._cut_all)

    def _cut_all(self) -> None:
        for writer in list(self._open):
            self.cuts += 1
            writer.transport.abort()

    def _run(self, ready: threading.Event) -> None:
        asyncio.set_event_loop(self._loop)
        server = self._loop.run_until_complete(
            asyncio.start_unix_server(self._accept, str(self._path))
        )
        os.chmod(self._path, 0o600)
        ready.set()
        self._loop.run_forever()
        server.close()
        self._cut_all()
        while tasks := asyncio.all_tasks(self._loop):
            self._loop.run_until_complete(asyncio.wait(tasks, timeout=1))
        self._loop.close()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        await self._hesitate()
        try:
            onward = await asyncio.open_unix_connection(str(self._target))
        except OSError:
            writer.transport.abort()
            return
        self._open |= {writer, onward[1]}
        try:
            await asyncio.gather(
                self._pass_on(reader, onward[1], writer), self._pass_on(onward[0], writer, None)
            )
        finally:
            for one in (writer, onward[1]):
                self._open.discard(one)
                one.transport.abort()

    async def _pass_on(
        self,
        source: asyncio.StreamReader,
        sink: asyncio.StreamWriter,
        back: asyncio.StreamWriter | None,
    ) -> None:
        """Pass on what comes; `back` is where it comes from, if it goes to the broker."""
        said = Said()
        with suppress(OSError):
            while data := await source.read(CHUNK_BYTES):
                if said.has_begun:
                    await self._hesitate()
                if self._happens(self._mood.cuts_percent):
                    if back and said.can_be_repeated and self._happens(self._mood.late_percent):
                        await self._come_late(said, sink, back)
                    else:
                        await self._cut(data, sink)
                    break
                sink.write(data)
                said.feed(data)
                if back and said.can_be_repeated and self._happens(self._mood.repeats_percent):
                    self.repeats += 1
                    sink.write(self._chance.choice(said.last))
                await sink.drain()
            if self._happens(self._mood.half_percent):
                sink.write_eof()
                await asyncio.sleep(0.2)
        for one in (sink, back):
            if one is not None:
                one.transport.abort()

    def _happens(self, percent: float) -> bool:
        return self._chance.uniform(0, 100) < percent

    async def _come_late(
        self, said: "Said", sink: asyncio.StreamWriter, back: asyncio.StreamWriter
    ) -> None:
        """Cut off the sender; say again what it said when it is there on another connection."""
        self.cuts += 1
        back.transport.abort()
        await asyncio.sleep(self._chance.uniform(*LATE_S))
        again = [*said.last]
        self._chance.shuffle(again)
        self.late += len(again)
        sink.write(b"".join(again))
        await sink.drain()
        await asyncio.sleep(LATE_S[0])  # the broker has read it before the connection is gone

    async def _cut(self, data: bytes, sink: asyncio.StreamWriter) -> None:
        self.cuts += 1
        sink.write(data[: self._chance.randrange(len(data))])
        await sink.drain()

    async def _hesitate(self) -> None:
        if self._mood.delay_s:
            await asyncio.sleep(self._chance.uniform(0, self._mood.delay_s))


@contextmanager
def between(places: Places, mood: Mood, seed: int) -> Iterator[tuple[Proxy, Proxy]]:
    """Have clients and workers find two proxies where the broker was, as long as it lasts."""
    published = places.address.read_text()
    paths = [places.directory / f"{name}-{seed}" for name in ("clients", "workers")]
    targets = (places.clients_socket, places.workers_socket)
    made = [
        Proxy(path, target, mood, seed) for path, target in zip(paths, targets, strict=True)
    ]
    moved = {"clients": f"ipc://{paths[0]}", "workers": f"ipc://{paths[1]}"}
    try:
        _write(places.address, json.dumps({**json.loads(published), **moved}))
        yield made[0], made[1]
    finally:
        _write(places.address, published)
        for proxy in made:
            proxy.close()


def _write(path: Path, text: str) -> None:
    draft = path.with_suffix(".proxied")
    draft.write_text(text)
    draft.replace(path)
