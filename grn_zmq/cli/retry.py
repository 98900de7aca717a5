"""`grn retry`: submit ended jobs again."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import click

from ..errors import RequestRefused
from ..facts import JobRow
from ..records import JobSpec
from ..wire import AskInputs, InputsAre
from .acting import Tally, leave_with_what_is_undone
from .asking import ask
from .common import json_option, one_line_errors, print_json, say
from .listing import all_jobs
from .refs import find_rows, some_refs_argument
from .states import FAILURES


@click.command()
@some_refs_argument
@click.option("--failed", is_flag=True, help="All that did not end well.")
@json_option
@one_line_errors
def retry(refs: Sequence[str], failed: bool, as_json: bool) -> None:
    """Submit ended jobs again, as new ones: the same command or call, the same options.

    \b
    grn retry 12             one of them
    grn retry 3-7 @          these, and the one submitted last
    grn retry --failed       all that did not end well and were not retried or cleaned

    A job runs after another one again if both are retried, as --failed does with those that
    were cancelled because one before them failed; other waits (--begin, --hold) are over.
    Only what was submitted or spawned can be, while its inputs are kept: those of the last
    2,000 ended jobs. Status 1 if none could be.
    """
    if bool(refs) == failed:
        raise click.UsageError("retry what? Name jobs, or say --failed")
    if refs:
        rows = sorted(find_rows(refs), key=lambda row: row.number)
    else:
        rows = failed_ones(all_jobs(ended=True))
    tally, inputs = _gather(rows)
    submitted = submit_again(inputs, tally) if inputs else []
    if as_json:
        print_json({"submitted": submitted, "undone": tally.facts()["undone"]})
    elif not rows:
        say("No jobs to retry")
    for one in () if as_json else submitted:
        say(f"Submitted job {one['number']} (again {one['again']})")
    leave_with_what_is_undone(tally)


def failed_ones(rows: Sequence[JobRow]) -> list[JobRow]:
    """Those that did not end well, with those that were to run after them; each once."""
    retried = {row.again_of for row in rows}
    able = [row for row in rows if row.detached and row.job_id not in retried]
    chosen = {row.job_id: row for row in able if row.state in FAILURES}
    for row in able:  # in the order of their numbers: who follows comes later
        if row.state == "cancelled" and chosen.keys() & set(row.after):
            chosen[row.job_id] = row
    return sorted(chosen.values(), key=lambda row: row.number)


def _gather(rows: Sequence[JobRow]) -> tuple[Tally, list[tuple[JobRow, InputsAre]]]:
    """Ask for what they were made of, as far as it is kept."""
    tally = Tally()
    inputs: list[tuple[JobRow, InputsAre]] = []
    for row in rows:
        try:
            inputs.append((row, ask(AskInputs(row.job_id), InputsAre)))
        except RequestRefused as refused:
            tally.undone.append((row, str(refused).removeprefix(f"job {row.number} ")))
    return tally, inputs


def submit_again(
    inputs: Sequence[tuple[JobRow, InputsAre]], tally: Tally
) -> list[dict[str, Any]]:
    """Hand the jobs over under new ids, in one batch; say which became which."""
    from ..client import this_client
    from ..futures import Future
    from ..pending import Pending
    from ..submission import new_id

    client = this_client()
    new_ids = {row.job_id: new_id() for row, _ in inputs}
    specs = [(_anew(found.spec, new_ids), found.blobs) for _, found in inputs]
    jobs = [Pending(spec, Future(spec.job_id, client), blobs) for spec, blobs in specs]
    client.submit_all(jobs)
    submitted: list[dict[str, Any]] = []
    for (row, _), pending in zip(inputs, jobs, strict=True):
        job_id = pending.future.job_id
        try:
            client.wait_accepted(pending)
        except RequestRefused as refused:
            tally.undone.append((row, f"was refused: {refused}"))
            continue
        tally.done.append(row)
        submitted.append({"number": pending.number, "job_id": job_id, "again": row.number})
    client.close()
    return submitted


def _anew(spec: JobSpec, new_ids: Mapping[str, str]) -> JobSpec:
    """The same job under its new id, after the same ones if those are run again as well."""
    return replace(
        spec,
        job_id=new_ids[spec.job_id],
        again_of=spec.job_id,
        parent="",
        after=tuple(new_ids[one] for one in spec.after if one in new_ids),
        after_any=tuple(new_ids[one] for one in spec.after_any if one in new_ids),
        begin_s=None,
        held=False,
    )
