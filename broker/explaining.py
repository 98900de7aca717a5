"""Why a job waits, for people: the limit that binds, every device in figures, what ends it."""

import math
from collections.abc import Iterable, Sequence
from typing import Final

from grn_zmq.amounts import format_amount
from grn_zmq.facts import DeviceReason, Reason, ResourceReason
from grn_zmq.units import format_bytes, format_seconds

from .book import Book
from .jobs import LEASED, Job, State
from .peers import Worker
from .placing import Placer
from .reasons import Reasons
from .scheduler import DeviceView, Hold, Why
from .views import why_ended

# Jobs named as those that are waited for.
MOST_BLOCKERS: Final = 20

_UNTIL: Final = {
    Why.NO_DEVICE: "until a worker joins: `grn start` starts them, or `grn-workers` where the "
    "broker runs already; their log says what is wrong",
    Why.ENVIRONMENT: "until a worker that offers it joins: see `grn environments`",
    Why.DRAINING: "until broker and workers are started again",
    Why.PAUSED: "until `grn resume`",
}


class Explaining:
    """Answers `grn why`; changes nothing."""

    def __init__(self, book: Book, placer: Placer, reasons: Reasons) -> None:
        self._book = book
        self._placer = placer
        self._reasons = reasons

    def reason(self, job: Job, now: float) -> Reason:
        """Say what a job waits for; of one that does not wait, that it does not."""
        if job.state is not State.QUEUED:
            return self._of_another(job)
        if job.missing:
            text = "waiting for its function to arrive from its program"
            return self._reason(job, "incomplete", text, "until the program has sent it")
        hold = self._reasons.why(job, now)
        if hold is None:
            text = "waiting for its turn: nothing keeps it, it starts in a moment"
            return self._reason(job, "turn", text, "")
        views = self._placer.look(job, now)
        blockers = self._blockers(job, hold, views)
        return self._reason(
            job,
            hold.why.value.replace(" ", "-"),
            hold.text,
            self._until(job, hold, views, blockers, now),
            tuple(one.number for one in blockers),
            tuple(self._device(view) for view in views),
            self._resources(job),
        )

    def _resources(self, job: Job) -> tuple[ResourceReason, ...]:
        """What it needs of its queue, with what is left of each and who has the rest."""
        queue, jobs = self._book.queues.of(job), self._book.jobs
        return tuple(
            ResourceReason(
                name=one.resource,
                needed=format_amount(one.needed),
                left=format_amount(one.most_left),
                capacity=format_amount(one.capacity),
                holders=tuple(
                    jobs[holder].number for holder in queue.pools.holders(one.resource)
                )[:MOST_BLOCKERS],
            )
            for one in queue.pools.figures(queue.needs(job.spec))
        )

    def _reason(
        self,
        job: Job,
        code: str,
        text: str,
        until: str,
        blockers: tuple[int, ...] = (),
        devices: tuple[DeviceReason, ...] = (),
        resources: tuple[ResourceReason, ...] = (),
    ) -> Reason:
        job_id, number, state = job.job_id, job.number, job.state.value
        return Reason(job_id, number, state, code, text, until, blockers, devices, resources)

    def _of_another(self, job: Job) -> Reason:
        if job.state in LEASED:
            where = f"on {job.device}" if job.device else "without a device"
            text = f"it does not wait: it is {job.state.value} {where}"
            return self._reason(job, "running", text, "")
        outcome = job.outcome
        never = outcome is not None and outcome.error_type == "JobTooLarge"
        said = why_ended(job)
        text = f"it does not wait: it {_word(job.state)}{': ' if said else ''}{said}"
        views = self._placer.look(job, 0.0) if never else []
        devices = tuple(self._device(view) for view in views)
        return self._reason(job, "never-fits" if never else "ended", text, "", (), devices)

    def _device(self, view: DeviceView) -> DeviceReason:
        worker = self._book.workers[view.worker]
        ledger = worker.ledger
        leases = list(ledger.leases.values())
        return DeviceReason(
            device=worker.label,
            name=ledger.facts.name,
            total_bytes=ledger.facts.total_bytes,
            foreign_bytes=ledger.foreign_bytes,
            idle_bytes=ledger.idle_bytes,
            leased_bytes=sum(one.lease_bytes for one in leases),
            measured_bytes=sum(one.used_bytes for one in leases),
            charged_bytes=sum(one.charged_bytes for one in leases),
            free_bytes=ledger.free_bytes(),
            needed_bytes=view.estimate.lease_bytes if view.estimate else 0,
            headroom_bytes=0 if view.idle else view.headroom_bytes,
            jobs=len(leases),
            max_jobs=ledger.max_jobs,
            text=_of_device(view, worker),
        )

    def _blockers(self, job: Job, hold: Hold, views: Sequence[DeviceView]) -> list[Job]:
        """The jobs whose end, or start, ends the wait."""
        jobs = self._book.jobs
        match hold.why:
            case Why.DEPENDENCY:
                return [jobs[one] for one in job.after][:MOST_BLOCKERS]
            case Why.PROFILE:
                return self._alike(job)
            case Why.RESERVED:
                kept = self._placer.kept_for
                return [jobs[kept]] if kept in jobs else []
            case Why.RESOURCE:
                return self._holders(job)
            case Why.DEVICES:
                led = [one for view in views for one in self._leases_of(view)]
                return [jobs[one] for one in dict.fromkeys(led)][:MOST_BLOCKERS]
            case Why.NO_ROOM | Why.NO_PLACE | Why.NO_IDLE_DEVICE if views:
                best = max(views, key=lambda one: one.spare_bytes)
                leases = self._book.workers[best.worker].ledger.leases
                return [jobs[one] for one in leases][:MOST_BLOCKERS]
        return []

    def _leases_of(self, view: DeviceView) -> Iterable[str]:
        return self._book.workers[view.worker].ledger.leases

    def _holders(self, job: Job) -> list[Job]:
        """Who has what its queue has too little of."""
        queue = self._book.queues.of(job)
        holders = queue.running
        if not queue.full():
            needs = queue.needs(job.spec)
            lacking = [one.resource for one in queue.pools.lacking(needs)]
            holders = {one for name in lacking for one in queue.pools.holders(name)}
        found = sorted((self._book.jobs[one] for one in holders), key=lambda one: one.number)
        return found[:MOST_BLOCKERS]

    def _alike(self, job: Job) -> list[Job]:
        """Those of its type that run: what they turn out to need decides."""
        return [
            self._book.jobs[lease.job_id]
            for worker in self._book.workers.values()
            for lease in worker.ledger.leases.values()
            if lease.job_type == job.spec.job_type
        ][:MOST_BLOCKERS]

    def _until(
        self,
        job: Job,
        hold: Hold,
        views: Sequence[DeviceView],
        blockers: Sequence[Job],
        now: float,
    ) -> str:
        named = _numbers(blockers)
        match hold.why:
            case Why.HELD:
                return f"until `grn release {job.number}`"
            case Why.BEGIN:
                return f"for {format_seconds(max(0.0, job.begin_at - now))}"
            case Why.DEPENDENCY:
                return (
                    f"until {named} ended; one that fails cancels this one"
                    if any(one.job_id in job.spec.after for one in blockers)
                    else f"until {named} ended"
                )
            case Why.PROFILE:
                return f"until {named} ended, or needs no more for a while" if named else ""
            case Why.RESERVED:
                return f"until {_numbers(blockers, 'has', 'have')} started" if named else ""
            case Why.NO_ROOM:
                return self._until_room(views, named, job, now)
            case Why.NO_PLACE | Why.RESOURCE | Why.DEVICES:
                one = "one of " if len(blockers) > 1 else ""
                return f"until {one}{_listed(blockers)} has ended" if named else ""
            case Why.NO_IDLE_DEVICE:
                return f"until {named} ended{self._expected(job, now)}" if named else ""
        return _UNTIL.get(hold.why, "")

    def _until_room(self, views: Sequence[DeviceView], named: str, job: Job, now: float) -> str:
        best = max(views, key=lambda one: one.spare_bytes)
        label = self._book.workers[best.worker].label
        lacking = format_bytes(max(0, -best.spare_bytes))
        who = f", as when {named} ended" if named else ", which other programs use"
        return f"until {lacking} more are free on {label}{who}{self._expected(job, now)}"

    def _expected(self, job: Job, now: float) -> str:
        """When a device is expected to have room, if that can be told."""
        at = self._placer.expected_at(job, now)
        return f": expected in {format_seconds(at - now)}" if now < at < math.inf else ""


def _of_device(view: DeviceView, worker: Worker) -> str:
    """What one device has to say to this job, in a few words."""
    if view.estimate is not None and view.estimate.sure_bytes > view.total_bytes:
        return "too small"
    if view.closed:
        return "somebody has it alone"
    if view.strangers:
        return "other programs use it"
    if not view.has_place:
        return "as many jobs as it may have"
    if view.held_for:
        return f"kept for {view.held_for}"
    if view.estimate is None:
        return "idle" if view.idle else "not idle"
    if view.spare_bytes < 0:
        return f"{format_bytes(-view.spare_bytes)} too little"
    return "has room" if worker.ledger.leases else "idle"


def _word(state: State) -> str:
    verbs = {State.SUCCEEDED: "succeeded", State.FAILED: "failed", State.EXPIRED: "expired"}
    return verbs.get(
        state, f"was {state.value}" if state is not State.OOM else "ran out of memory"
    )


def _listed(jobs: Sequence[Job]) -> str:
    return f"job{'' if len(jobs) == 1 else 's'} {', '.join(str(one.number) for one in jobs)}"


def _numbers(jobs: Sequence[Job], one: str = "has", many: str = "have") -> str:
    """`job 3 has`, `jobs 3, 4 have`; nothing for none."""
    return f"{_listed(jobs)} {one if len(jobs) == 1 else many}" if jobs else ""
