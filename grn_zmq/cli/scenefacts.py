"""A scene for machines, the same wherever one is printed."""

import time
from typing import Any

from ..facts import Scene
from .devices import facts_of
from .listing import in_order, job_facts
from .when import iso


def scene_facts(scene: Scene) -> dict[str, Any]:
    """Counts, devices with their processes and workers, and some of the live jobs.

    `ended` counts the jobs that have ended since the broker was started.
    """
    now_s = time.time()
    return {
        "at": iso(now_s),
        "paused": scene.paused,
        "stopping": scene.stopping,
        "running": scene.running,
        "queued": scene.queued,
        "ended": scene.ended,
        "devices": [facts_of(row) for row in in_order(scene.devices)],
        "jobs": [job_facts(row, now_s) for row in scene.rows],
    }
