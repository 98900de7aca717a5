"""A worker core, and what happens to it, in a few words."""

from typing import Any, TypeVar

from grn_zmq import wire
from grn_zmq.records import Begun, Blob, Held, Result, Run
from tests.builders import MIB, an_attempt, an_id
from workers.core import WorkerCore
from workers.effects import Effect, Keep, Reply
from workers.events import Level, Returned
from workers.spoollog import Left, Record, StartRecord

EPOCH = 7
FUNCTION, CONTEXT = Blob("f" * 64, b"function"), Blob("c" * 64, b"context")
ENVIRONMENT = {"GRN_DEVICE": "host:0"}

M = TypeVar("M")


def a_worker(
    *, with_blobs: bool = True, on_host: bool = True, left: Left | None = None
) -> WorkerCore:
    """A worker that has been welcomed."""
    core = WorkerCore(on_host=on_host, total_bytes=1000 * MIB, left=left)
    welcome(core, EPOCH, now=0.0)
    if with_blobs:
        core.handle(wire.Blobs((FUNCTION, CONTEXT)), now=0.0)
    return core


def welcome(core: WorkerCore, epoch: int, now: float) -> list[Effect]:
    """Let it greet, and answer that."""
    number, _ = core.greet()
    return core.handle(wire.Welcome(wire.PROTOCOL, epoch, 77, greeting=number), now)


def assign(core: WorkerCore, *runs: Run, now: float = 0.0) -> list[Effect]:
    """Give it these runs; its spool takes what it writes down."""
    return settled(core, core.handle(wire.Assign(EPOCH, runs), now), now)


def settled(core: WorkerCore, effects: list[Effect], now: float) -> list[Effect]:
    """What is to be done besides writing, with what begins once the starts are written."""
    begins = any(isinstance(record, StartRecord) for record in written(effects))
    after = core.kept(now) if begins else []
    return [one for one in (*effects, *after) if not isinstance(one, Keep)]


def written(effects: list[Effect]) -> list[Record]:
    """What is to be written to the spool."""
    return [one.record for one in effects if isinstance(one, Keep)]


def held(number: int, state: str = "running", attempt: int = 1) -> Held:
    return Held(an_id(number), attempt, state)


def end(core: WorkerCore, how: str, now: float, attempt: int = 1) -> list[Effect]:
    return core.handle(wire.End(EPOCH, how, (an_attempt(1, attempt),)), now)


def a_return(**changes: Any) -> Returned:
    facts = {
        "outcome": "succeeded",
        "exit_status": None,
        "error_type": "",
        "error_text": "",
        "payload": b"value",
        "reusable": True,
    }
    return Returned(**{**facts, **changes})


def a_level(used: int = 0, foreign: int = 0, idle: int = 0, **by_job: int) -> Level:
    """What the device shows, in MiB; `j3=200` says that job 3 uses 200."""
    uses = {an_id(int(name[1:])): mib * MIB for name, mib in by_job.items()}
    return Level(used * MIB, foreign * MIB, idle * MIB, 0.5, uses, frozenset(uses))


def begun(number: int, stand_in: bool = False, ran_s: float = 0.0) -> Reply:
    one = Begun(an_id(number), 1, "host:0", stand_in, ENVIRONMENT, ran_s, (0,))
    return Reply(wire.Started((one,)))


def replies(effects: list[Effect], kind: type[M]) -> list[M]:
    messages = [effect.message for effect in effects if isinstance(effect, Reply)]
    return [message for message in messages if isinstance(message, kind)]


def result_in(effects: list[Effect]) -> Result:
    (finished,) = replies(effects, wire.Finished)
    assert finished.epoch == EPOCH
    (result,) = finished.results
    return result
