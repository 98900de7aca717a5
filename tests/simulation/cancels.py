"""Who may be cancelled: nobody whose client lives, is here and has not asked for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.changes import Batch
from grn_zmq import wire

if TYPE_CHECKING:
    from broker.settings import Settings
    from tests.simulation.world import World


class Cancels:
    """Notes every reason to cancel a job when it arises, and judges the ends by them."""

    def __init__(self, world: World, settings: Settings) -> None:
        self._world = world
        self._settings = settings
        self._named: set[str] = set()
        self._given_up: set[str] = set()
        # By which connection a client was heard last; and from when on it is too long away.
        self._heard_by: dict[str, bytes] = {}
        self._too_long_at: dict[str, float] = {}
        self._stopped_epoch = 0

    def heard(self, peer: bytes, message: wire.Message) -> None:
        """The broker is about to read this."""
        match message:
            case wire.Hello(_, session):
                self._heard_by[session] = peer
                self._too_long_at.pop(session, None)
            case wire.Cancel(job_ids):
                self._named.update(job_ids)
            case wire.DeleteQueue(name):
                in_it = [one for one, spec in self._world.specs.items() if spec.queue == name]
                self._named.update(in_it)
            case wire.Stop():
                self._stopped_epoch = self._world.epoch

    def disconnected(self, peer: bytes) -> None:
        """The broker is about to be told that this connection is gone."""
        for session, last in self._heard_by.items():
            if last == peer:
                self._too_long_at[session] = self._world.now + self._settings.away_s

    def broker_started(self) -> None:
        """Everybody is away; who was known before has longer to come back."""
        self._heard_by.clear()
        until = self._world.now + self._settings.return_after_start_s
        self._too_long_at = dict.fromkeys((one.session for one in self._world.clients), until)

    def tick(self) -> None:
        """The broker is about to look who has been away for too long."""
        for client in self._world.clients:
            if self._world.now >= self._too_long_at.get(client.session, float("inf")):
                self._given_up.update(client.submitted)

    def judge(self, batch: Batch) -> None:
        """See to it that whatever is about to be kept as cancelled may be."""
        ends = self._world.disk.tables.ends | {one.job_id: one for one in batch.ends}
        failed = {one for one in ends if ends[one].outcome.outcome != "succeeded"}
        for end in batch.ends:
            if end.outcome.outcome == "cancelled":
                assert self._may_be(end.job_id, failed), f"{end.job_id} cancelled by nobody"

    def _may_be(self, job_id: str, failed: set[str]) -> bool:
        if job_id in self._named or failed.intersection(self._world.specs[job_id].after):
            return True
        if self._world.specs[job_id].detached and job_id in self._world.disk.tables.jobs:
            return False  # it outlives its client, and is queued at the next start
        stopped = self._stopped_epoch == self._world.epoch
        return stopped or job_id in self._given_up or not self._world.owner_lives(job_id)
