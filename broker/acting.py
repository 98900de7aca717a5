"""What people do to jobs that wait or have ended: hold, release, prefer, pause, clean."""

from collections.abc import Callable, Iterable

from grn_zmq import wire
from grn_zmq.facts import Undone

from .book import Book, facts_of
from .effects import Effect, Note, Send
from .jobs import Job, State
from .peers import Session
from .retention import Retention

# Does it to a job; gives why not, or nothing.
Act = Callable[[Job], str]


class Acting:
    """Carries out orders, job by job; each is done or said why not."""

    def __init__(self, book: Book, retention: Retention) -> None:
        self._book = book
        self._retention = retention

    def hold(self, session: Session, message: wire.Hold, now: float) -> list[Effect]:
        def act(job: Job) -> str:
            if job.state is not State.QUEUED:
                return f"is {job.state.value}: only jobs that wait can be held or released"
            if job.held != message.held:
                self._set_held(job, message.held, now)
            return ""

        return self._each(session, message.job_ids, act, "held" if message.held else "released")

    def _set_held(self, job: Job, held: bool, now: float) -> None:
        if job.missing:  # it is in no queue yet, and not kept
            job.held = held
            return
        if held:
            self._book.close(job)
        else:
            self._book.release(job, now)
        self._book.keeping.touch(job)

    def prioritise(self, session: Session, message: wire.Prioritise) -> list[Effect]:
        def act(job: Job) -> str:
            if job.state is not State.QUEUED:
                return f"is {job.state.value}: only the priority of jobs that wait can change"
            if job.priority != message.priority:
                self._book.prioritise(job, message.priority)
            return ""

        return self._each(session, message.job_ids, act, "given another priority")

    def pause(self, session: Session, message: wire.Pause) -> list[Effect]:
        effects: list[Effect] = [Send(session.peer, wire.Acted((), ()))]
        if self._book.paused != message.paused:
            self._book.set_paused(message.paused)
            text = "the queue is paused" if message.paused else "the queue goes on"
            effects.append(Note(text))
            if message.paused:
                effects += self._recall()
        return effects

    def _recall(self) -> list[Effect]:
        """Take back what has been placed behind others and has not begun."""
        book = self._book
        return [
            Send(worker.peer, wire.Recall(book.epoch))
            for worker in book.workers.values()
            if any(book.jobs[one].rides for one in worker.leads)
        ]

    def clean(self, session: Session, message: wire.Clean) -> list[Effect]:
        effects: list[Effect] = []

        def act(job: Job) -> str:
            if job.live:
                return f"is {job.state.value}: only ended jobs can be cleaned"
            if job.waiting_children:
                return "has jobs that still run: wait for them or cancel them first"
            sessions = self._book.sessions.values()
            awaited = [one for one in sessions if job.job_id in one.unreceived]
            if awaited:
                return f"is still being told to its program (pid {awaited[0].pid})"
            effects.extend(self._retention.forget(job))
            return ""

        return [*self._each(session, message.job_ids, act, "cleaned"), *effects]

    def _each(
        self, session: Session, job_ids: Iterable[str], act: Act, word: str
    ) -> list[Effect]:
        done: list[str] = []
        undone: list[Undone] = []
        notes: list[Effect] = []
        for job_id in job_ids:
            job = self._book.jobs.get(job_id)
            facts = facts_of(job) if job is not None else {}
            why = "is not known here" if job is None else act(job)
            if why:
                undone.append(Undone(job_id, why))
            else:
                done.append(job_id)
                notes.append(Note(word, facts))
        return [Send(session.peer, wire.Acted(tuple(done), tuple(undone))), *notes]
