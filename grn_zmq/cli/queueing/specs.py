"""Commands as they travel: the job and the context of each."""

import os
from collections.abc import Mapping

import msgpack

from ...naming import version_of_command
from ...records import Blob, JobSpec
from ...submission import context_blob, new_id, parent_id
from .commands import here
from .planning import CommandJob

# The ids of the jobs that references mean, by the references.
Meant = Mapping[tuple[str, ...], tuple[str, ...]]


def context_of(cwd: str) -> Blob:
    """Give what commands see of this process, in this directory or, for nothing, in ours.

    Raises:
        GrnError: Our own directory is gone.
    """
    if not cwd:
        here()
    return context_blob({}, cwd)


def describe_command(
    job: CommandJob,
    context: Blob,
    *,
    detached: bool,
    stdin: str = "",
    meant: Meant | None = None,
) -> JobSpec:
    """Give the job of one command.

    Args:
        stdin: The pipe from which it reads; nothing for none.
        meant: For what it waits for.
    """
    asked, declared, ids = job.options, job.declared, meant or {}
    return JobSpec(
        job_id=new_id(),
        job_type=job.job_type,
        name=asked.name,
        kind="command",
        by=dict(job.by),
        policy=asked.policy,
        function="",
        context=context.digest,
        parent=parent_id(),
        pin="",
        stdin=stdin,
        detached=detached,
        has_stand_in=False,
        reuse=False,
        version=version_of_command([os.path.join(job.cwd, word) for word in job.words]),
        memory_bytes=asked.memory_bytes,
        priority=asked.priority,
        oom_retries=asked.oom_retries,
        enforce=asked.enforce,
        payload=msgpack.packb(list(job.words), unicode_errors="surrogatepass"),
        timeout_s=asked.timeout_s,
        time_limit_s=asked.time_limit_s,
        retries=asked.retries,
        retry_on=asked.retry_on,
        grace_s=asked.grace_s,
        title=job.title,
        variables=dict(job.variables),
        after=ids.get(job.after, ()),
        after_any=ids.get(job.after_any, ()),
        begin_s=job.begin_s,
        held=job.held,
        exclusive=asked.exclusive,
        on_end=asked.on_end,
        gpus=declared.gpus,
        share=declared.share,
        queue=declared.queue,
        resources=dict(declared.resources),
        environment=asked.environment,
    )
