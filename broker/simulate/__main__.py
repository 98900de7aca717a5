"""`grn simulate`: what policies would make of a stream of jobs, without any GPU."""

import json
import os
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from grn_zmq.cli.common import WholeNumber

from .ablations import ABLATIONS
from .cases import WORKLOADS, Case, Results, play
from .metrics import NothingDone
from .physics import LAWS
from .plan import Asked, BadPlan, cases_of, notes_of, with_traces
from .plot import CannotPlot, draw, load_matplotlib
from .policies import BY_NAME
from .pool import play_all
from .summary import as_facts, rows_of
from .table import show
from .traces import BadTrace
from .whatif import answers_of, cases_to_compare, first_of_ours

INTERRUPTED = 130

_file = click.Path(dir_okay=False, path_type=Path)


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--all", "everything", is_flag=True, help="3 workloads x 3 loads x 10 seeds.")
@click.option("--workload", "workloads", multiple=True, type=click.Choice(WORKLOADS),
              help="Default: a small sweep, or that of the trace.")  # fmt: skip
@click.option("--philly", type=_file, metavar="FILE.csv", help="The trace of philly.")
@click.option("--openb", type=_file, metavar="FILE.csv", help="The trace of openb.")
@click.option("--trace", type=_file, metavar="FILE.csv",
              help="The trace of the one --workload that needs it.")  # fmt: skip
@click.option("--policy", "policies", multiple=True, type=click.Choice(list(BY_NAME)),
              help="Default: all.")  # fmt: skip
@click.option("--load", "loads", multiple=True, type=click.FloatRange(0, min_open=True),
              help="Default: 3.")  # fmt: skip
@click.option("--seeds", type=WholeNumber(1), help="How many random streams.")
@click.option("--seed", "first_seed", default=1, help="The first of them.", show_default=True)
@click.option("--jobs", type=WholeNumber(1), help="Jobs in a stream.")
@click.option("--devices", type=WholeNumber(1), help="How many GPUs.")
@click.option("--law", default="recent", type=click.Choice(list(LAWS)), show_default=True,
              help="How much jobs on one GPU slow each other down.")  # fmt: skip
@click.option("--foreign", is_flag=True, help="Strangers come and go on every GPU.")
@click.option("--without", "ablated", multiple=True, type=click.Choice(ABLATIONS),
              help="Take a part of our policy away.")  # fmt: skip
@click.option("--what-if-devices", "extra", type=int, metavar="+N",
              help="Compare with so many GPUs more (or -N fewer).")  # fmt: skip
@click.option("--processes", default=os.cpu_count() or 1, type=WholeNumber(1),
              help="Runs at once. Default: as many as cores.")  # fmt: skip
@click.option("--json", "json_path", is_flag=False, flag_value="-", metavar="[FILE]",
              help="Print facts as JSON, or write them there.")  # fmt: skip
@click.option("--plot", "plot_path", type=_file, metavar="FILE.png",
              help="Draw each GPU's memory over time, of the first run.")  # fmt: skip
def main(
    philly: Path | None,
    openb: Path | None,
    trace: Path | None,
    extra: int | None,
    processes: int,
    json_path: str | None,
    plot_path: Path | None,
    **asked: Any,
) -> None:
    """Say what policies would make of a stream of jobs: the real scheduler, simulated GPUs.

    \b
    grn simulate                              a small sweep, all policies, some seconds
    grn simulate --what-if-devices +2         would two more GPUs help?
    grn simulate --philly philly.csv --load 1.2 --seeds 3
    grn simulate --law losing --policy cold --policy exclusive
    grn simulate --plot memory.png --json result.json
    grn simulate --all --philly philly.csv --openb openb_pod_list_default.csv

    \b
    Workloads
      sweep      12 types of training, each with 5 batch sizes; made up
      philly     arrivals and lengths of a trace of Microsoft's cluster, memory made up;
                 columns timestamp,duration,num_gpus,cluster (as in pkusys/ElasticFlow)
      openb      pods of a trace of Alibaba's cluster, memory near what they asked for;
                 columns cpu_milli,memory_mib,num_gpu,gpu_milli,creation_time,
                 scheduled_time,deletion_time (openb_pod_list_default.csv)
      adversary  types whose memory doubles, has two modes or leaks, among honest ones

    \b
    Load is what arrives against what the GPUs could do at best: below 1 they keep up,
    at 3 nearly all jobs are there at once. Cold: nothing is known at the start; warm:
    such jobs ran the day before. The oracle knows each job's memory and length.

    \b
    Columns
      MAKESPAN   until the last job was done; against the oracle, and against a bound
                 that no schedule can beat; GAIN: times faster than one job per GPU
      MEAN JCT   from a job's arrival to its end; BIG: of jobs above 70 % of a GPU, p95
      OOM        processes that died for want of memory; INNOCENT: inside their promise
      RESTARTED  jobs that ran more than once; WASTED: work lost by that
      FAILED     what users must deal with; LEASE/PEAK: bytes promised against needed

    The status is 1 if our own policy or the oracle did not end every job.
    """
    traces = {name: path for name, path in (("philly", philly), ("openb", openb)) if path}
    try:
        if plot_path is not None:
            load_matplotlib()
        cases = cases_of(with_traces(Asked(traces=traces, **asked), trace))
        if extra is not None:
            results = _what_if(cases, extra, processes, json_path)
        else:
            results = _compare(cases, processes, json_path)
        if plot_path is not None:
            draw(play(first_of_ours(cases))[0], plot_path)
    except (BadPlan, BadTrace, CannotPlot, NothingDone) as error:
        sys.exit(f"grn simulate: {error}")
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    if wrong := "; ".join(_unended(results)):
        sys.exit(f"grn simulate: jobs never ended, so no figure counts: {wrong}")


def _compare(cases: list[Case], processes: int, json_path: str | None) -> Results:
    notes = notes_of(cases)
    results = play_all(cases, processes, _progress)
    ordered: Results = {case: results[case] for case in cases}
    rows = rows_of(ordered)
    _give(as_facts(ordered, rows, notes), json_path)
    if json_path != "-":
        show(rows, notes)
    return results


def _what_if(cases: list[Case], extra: int, processes: int, json_path: str | None) -> Results:
    results = play_all(cases_to_compare(cases, extra), processes, _progress)
    answers = answers_of(results, extra)
    _give({"answers": [asdict(one) for one in answers]}, json_path)
    if json_path != "-":
        for answer in answers:
            click.echo("\n".join(answer.lines()))
    return results


def _unended(results: Results) -> Iterator[str]:
    """Where a policy that must end every job has not."""
    for case, figures in results.items():
        policy = BY_NAME[case.policy]
        if figures.dropped and policy.must_end:
            yield (
                f"{figures.dropped:,} of {figures.jobs:,} under {policy.title} "
                f"({case.scene.workload}, load {case.load:g}, seed {case.scene.seed})"
            )


def _give(facts: dict[str, Any], path: str | None) -> None:
    if path is None:
        return
    text = json.dumps(facts, indent=2, default=str)
    if path == "-":
        click.echo(text)
        return
    try:
        Path(path).write_text(text + "\n")
    except OSError as error:
        raise BadPlan(f"cannot write {path}: {error.strerror}") from None


def _progress(done: int, total: int, last: str) -> None:
    """A line that overwrites itself; nothing where nobody watches."""
    if not sys.stderr.isatty():
        return
    text = f"{done}/{total} runs, {last}" if done < total else ""
    click.echo(f"\r\x1b[2K{text}", nl=False, err=True)


if __name__ == "__main__":
    main(prog_name="grn simulate")
