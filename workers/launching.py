"""Which job process an attempt gets. Pure."""

from grn_zmq.records import Run

from . import ending
from .blobcache import BlobCache
from .effects import Effect, Launch
from .runs import Process, Processes


def process_for(
    run: Run, processes: Processes, blobs: BlobCache, now: float
) -> tuple[Process, list[Effect]]:
    """Give an idle process that may run this, or one that is to be launched for it."""
    effects: list[Effect] = []
    process = processes.serving(run)
    if process is None or not run.reuse or run.environment:
        # What serves another context of this client and type will not be needed again.
        effects += ending.close(processes.idle(run.session, run.job_type), now)
        process = processes.new(run)
        context = blobs.get(run.context) if run.context else b""
        effects.append(Launch(process.key, context, run.devices))
    process.idle_since = None
    process.job_id = run.job_id
    return process, effects
