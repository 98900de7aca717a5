"""What the workers of celery import: its application, with the jobs as tasks."""

import os
from typing import Final

from celery import Celery

from benchmarks.peers.on_celery import URL
from grn_zmq.bench.jobs import BODIES

app = Celery("bench", broker=os.environ[URL], backend=os.environ[URL])
app.conf.update(worker_redirect_stdouts=False, result_expires=3600)
TASKS: Final = {name: app.task(name=f"bench.{name}")(body) for name, body in BODIES.items()}
