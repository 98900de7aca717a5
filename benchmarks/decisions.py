"""What one event costs the broker's core while many jobs wait.

python -m benchmarks.decisions               16 devices, 500 classes, 1,000 and 100,000 queued
python -m benchmarks.decisions --json        the same as facts
python -m benchmarks.decisions --cpu         processor time: on a machine that others use too
python -m benchmarks.decisions --profile     where the time goes, by cProfile
python -m benchmarks.decisions --resources 5 every job declares needs of so many resources
"""

import argparse
import cProfile
import gc
import json
import math
import pstats
import random
import time
from collections.abc import Callable, Iterable
from heapq import heappop, heappush
from typing import Final

from broker.cells import CellId
from broker.core import BrokerCore
from broker.effects import Effect, Send
from broker.profiles import Observed, Profiles
from broker.settings import Settings
from grn_zmq import wire
from grn_zmq.records import Begun, DeviceFacts, JobSpec, Result, Use
from grn_zmq.units import GIB

DEVICES: Final = 16
CLASSES: Final = 500
QUEUES: Final = (1_000, 100_000)
EVENTS: Final = 3_000
TOTAL_BYTES: Final = 24 * GIB
EPOCH: Final = 1
CLIENT: Final = b"client"


class Bench:
    """A core whose devices are full, and who ends, arrives and reports around it."""

    def __init__(
        self,
        queued: int,
        classes: int,
        devices: int,
        resources: int,
        clock_ns: Callable[[], int],
    ) -> None:
        self.random = random.Random(1)
        self.clock_ns = clock_ns
        self.now = 0.0
        self.numbers = 0
        self.spent_us: dict[str, list[float]] = {}
        self.running: dict[str, tuple[int, JobSpec]] = {}
        self.ends: list[tuple[float, str]] = []
        # Memory as in the traces: log-normal, median 4 GiB, between 1 and 22.
        self.needs = [
            int(min(22.0, max(1.0, self.random.lognormvariate(math.log(4), 0.8))) * GIB)
            for _ in range(classes)
        ]
        self.lasts_s = [self.random.lognormvariate(math.log(60), 1.0) for _ in range(classes)]
        self.specs: dict[str, JobSpec] = {}
        # Jobs of a class need the same: of each resource between nothing and a quarter.
        self.declared = [
            {
                f"r{number}": str(self.random.randint(1, 16))
                for number in range(resources)
                if self.random.random() < 0.75
            }
            for _ in range(classes)
        ]
        # Memory is scarcer than any of them, but only just.
        capacity = {f"r{number}": {"0": str(6 * devices)} for number in range(resources)}
        self.core = BrokerCore(
            EPOCH, pid=1, settings=Settings(capacity=capacity), profiles=self._profiles()
        )
        self.core.handle(CLIENT, wire.Hello(wire.PROTOCOL, f"{1:032x}", pid=1), self.now)
        for index in range(devices):
            self.core.handle(peer(index), a_greet(index), self.now)
            self._take(self.core.handle(peer(index), self._report(index), self.now))
        while queued > 0:
            count = min(queued, wire.MAX_JOBS_PER_MESSAGE)
            self._take(self.core.handle(CLIENT, self._submit(count), self.now))
            queued -= count
        self.devices = devices

    def _profiles(self) -> Profiles:
        profiles = Profiles()
        for number, need in enumerate(self.needs):
            for _ in range(5):
                noise = self.random.gauss(1.0, 0.02)
                seen = Observed("succeeded", int(need * noise), run_s=self.lasts_s[number])
                profiles.observe((type_of(number), ()), "GPU", seen)
        assert profiles.cell(CellId(type_of(0), (), "GPU")).runs == 5
        return profiles

    def _submit(self, count: int = 1) -> wire.Submit:
        specs: list[JobSpec] = []
        for _ in range(count):
            self.numbers += 1
            number = self.random.randrange(len(self.needs))
            declared = self.declared[number]
            spec = a_spec(f"{self.numbers:032x}", type_of(number), declared)
            self.specs[spec.job_id] = spec
            specs.append(spec)
        return wire.Submit(tuple(specs))

    def _report(self, index: int) -> wire.Report:
        uses = tuple(
            Use(job_id, 1, int(0.95 * self.needs[int(spec.job_type[1:])]))
            for job_id, (at, spec) in self.running.items()
            if at == index
        )
        return wire.Report(sum(use.used_bytes for use in uses), 0, 0, 0.5, uses)

    def _take(self, effects: Iterable[Effect]) -> None:
        """Do what a worker does with what it is assigned: start it, and end it in time."""
        for effect in effects:
            if not isinstance(effect, Send) or not isinstance(effect.message, wire.Assign):
                continue
            index = int(effect.peer.decode())
            begun: list[Begun] = []
            for run in effect.message.runs:
                spec = self.specs.pop(run.job_id)
                self.running[run.job_id] = (index, spec)
                lasts_s = self.lasts_s[int(spec.job_type[1:])]
                ends_at = self.now + lasts_s * self.random.uniform(0.8, 1.2)
                heappush(self.ends, (ends_at, run.job_id))
                begun.append(Begun(run.job_id, run.attempt, "", False, {}))
            self.core.handle(effect.peer, wire.Started(tuple(begun)), self.now)

    def _timed(self, kind: str, sender: bytes, message: wire.Message) -> None:
        before = self.clock_ns()
        effects = self.core.handle(sender, message, self.now)
        self._note(kind, before, effects)

    def _note(self, kind: str, before: int, effects: list[Effect]) -> None:
        self.spent_us.setdefault(kind, []).append((self.clock_ns() - before) / 1000)
        self._take(effects)

    def run(self, events: int) -> None:
        """One job ends, one arrives, one device reports; and every second time passes."""
        last_tick = self.now
        for _ in range(events // 3):
            ends_at, job_id = heappop(self.ends)
            self.now = max(self.now, ends_at)
            index, spec = self.running.pop(job_id)
            number = int(spec.job_type[1:])
            result = a_result(job_id, self.needs[number], self.lasts_s[number])
            self._timed("finish", peer(index), wire.Finished(EPOCH, (result,)))
            self._timed("arrive", CLIENT, self._submit())
            for one in range(self.devices):  # heartbeats, so that nobody is silent
                if one == index:
                    self._timed("report", peer(one), self._report(one))
                else:
                    self._take(self.core.handle(peer(one), self._report(one), self.now))
            if self.now - last_tick >= 1.0:
                last_tick = self.now
                before = self.clock_ns()
                self._note("tick", before, self.core.tick(self.now))


def peer(index: int) -> bytes:
    return str(index).encode()


def type_of(number: int) -> str:
    return f"t{number}"


def a_greet(index: int) -> wire.Greet:
    facts = DeviceFacts(index, "GPU", f"GPU-{index}", "nvml", "GPU", TOTAL_BYTES)
    return wire.Greet(
        wire.PROTOCOL, f"nvml-{index}", f"{1000 + index:032x}", "boot", 1, facts, None, ()
    )


def a_spec(job_id: str, job_type: str, resources: dict[str, str]) -> JobSpec:
    return JobSpec(
        job_id=job_id,
        job_type=job_type,
        name=job_type,
        kind="call",
        by={},
        policy="spread",
        function="",
        context="",
        parent="",
        pin="",
        stdin="",
        detached=True,
        has_stand_in=False,
        reuse=True,
        version="",
        memory_bytes=0,
        priority=0,
        oom_retries=2,
        enforce=False,
        payload=b"",
        resources=resources,
    )


def a_result(job_id: str, peak_bytes: int, run_s: float) -> Result:
    return Result(
        job_id, 1, "succeeded", None, None, peak_bytes, 0, 0, 0.5, 0.5, True, run_s, "", "", b""
    )


def percentile(values: list[float], part: float) -> float:
    return sorted(values)[min(len(values) - 1, int(part * len(values)))]


def facts_of(bench: Bench) -> dict[str, dict[str, float]]:
    """Microseconds by kind of event, and of all of them together."""
    everything = [one for spent in bench.spent_us.values() for one in spent]
    return {
        kind: {
            "events": len(spent),
            "p50_us": round(percentile(spent, 0.50), 1),
            "p99_us": round(percentile(spent, 0.99), 1),
            "max_us": round(max(spent), 1),
        }
        for kind, spent in {**bench.spent_us, "all": everything}.items()
    }


def measure(queued: int, arguments: argparse.Namespace) -> dict[str, dict[str, float]]:
    clock_ns = time.thread_time_ns if arguments.cpu else time.perf_counter_ns
    bench = Bench(queued, arguments.classes, arguments.devices, arguments.resources, clock_ns)
    bench.run(arguments.events // 10)  # warm: caches of estimates, and of the interpreter
    bench.spent_us.clear()
    gc.collect()
    gc.freeze()
    profiler = cProfile.Profile()
    if arguments.profile:
        profiler.enable()
    bench.run(arguments.events)
    if arguments.profile:
        profiler.disable()
        pstats.Stats(profiler).sort_stats("tottime").print_stats(15)
    bench.core.check()
    gc.unfreeze()
    return facts_of(bench)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--json", action="store_true", dest="as_json")
    parser.add_argument("--cpu", action="store_true")
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--devices", type=int, default=DEVICES)
    parser.add_argument("--resources", type=int, default=0)
    parser.add_argument("--classes", type=int, default=CLASSES)
    parser.add_argument("--events", type=int, default=EVENTS)
    parser.add_argument("--queued", type=int, nargs="+", default=list(QUEUES))
    arguments = parser.parse_args()
    figures = {queued: measure(queued, arguments) for queued in arguments.queued}
    first, last = figures[arguments.queued[0]]["all"], figures[arguments.queued[-1]]["all"]
    growth = {name: round(last[name] / first[name], 2) for name in ("p50_us", "p99_us")}
    if arguments.as_json:
        print(json.dumps({"figures": figures, "growth": growth}, indent=2))
        return
    print(
        f"{arguments.devices} devices, {arguments.classes} classes, {arguments.resources} "
        f"resources; microseconds per event"
    )
    print(f"{'queued':>8} {'event':>8} {'n':>6} {'p50':>8} {'p99':>8} {'max':>8}")
    for queued, kinds in figures.items():
        for kind, one in kinds.items():
            print(
                f"{queued:>8} {kind:>8} {one['events']:>6.0f} {one['p50_us']:>8.1f} "
                f"{one['p99_us']:>8.1f} {one['max_us']:>8.1f}"
            )
    print(f"growth: p50 x {growth['p50_us']}, p99 x {growth['p99_us']}")


if __name__ == "__main__":
    main()
