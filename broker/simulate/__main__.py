"""`grn simulate`: what policies would make of a stream of jobs, without any GPU."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import click

from .ablations import ABLATIONS
from .cases import WORKLOADS, Case, Results, play
from .metrics import Figures
from .physics import LAWS
from .plan import Asked, BadPlan, cases_of, notes_of
from .plot import CannotPlot, draw, load_matplotlib
from .policies import BY_NAME
from .pool import play_all
from .summary import as_facts, rows_of
from .table import duration, show
from .traces import BadTrace

INTERRUPTED = 130

_file = click.Path(dir_okay=False, path_type=Path)


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--all", "everything", is_flag=True, help="3 workloads x 3 loads x 10 seeds.")
@click.option("--workload", "workloads", multiple=True, type=click.Choice(WORKLOADS))
@click.option("--philly", type=_file, help="The Philly trace, philly.csv.")
@click.option("--openb", type=_file, help="The openb trace, openb_pod_list_default.csv.")
@click.option("--trace", type=_file, help="The trace of the one --workload that needs it.")
@click.option("--policy", "policies", multiple=True, type=click.Choice(list(BY_NAME)))
@click.option("--load", "loads", multiple=True, type=click.FloatRange(0, min_open=True))
@click.option("--seeds", type=click.IntRange(1), help="How many random streams.")
@click.option("--seed", "first_seed", default=1, help="The first of them.", show_default=True)
@click.option("--jobs", type=click.IntRange(1), help="Jobs in a stream.")
@click.option("--devices", type=click.IntRange(1), help="How many GPUs.")
@click.option("--law", default="recent", type=click.Choice(list(LAWS)), show_default=True,
              help="How much jobs on one GPU slow each other down.")  # fmt: skip
@click.option("--foreign", is_flag=True, help="Strangers come and go on every GPU.")
@click.option("--without", "ablated", multiple=True, type=click.Choice(ABLATIONS),
              help="Take a part of our policy away.")  # fmt: skip
@click.option("--what-if-devices", "extra", type=int, metavar="+N",
              help="Compare with so many GPUs more (or -N fewer).")  # fmt: skip
@click.option("--processes", default=os.cpu_count() or 1, type=click.IntRange(1),
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
    grn simulate --workload philly --philly philly.csv --load 1.2 --seeds 3
    grn simulate --law losing --policy cold --policy exclusive
    grn simulate --plot memory.png --json result.json
    grn simulate --all --philly philly.csv --openb openb_pod_list_default.csv
    """
    paths = {"philly": philly, "openb": openb}
    for name in asked["workloads"]:
        if name in paths and paths[name] is None:
            paths[name] = trace
    traces = {name: path for name, path in paths.items() if path is not None}
    try:
        if plot_path is not None:
            load_matplotlib()
        cases = cases_of(Asked(traces=traces, **asked))
        if extra is not None:
            _what_if(cases, extra, json_path)
        else:
            _compare(cases, processes, json_path)
        if plot_path is not None:
            draw(play(_first_of_ours(cases))[0], plot_path)
    except (BadPlan, BadTrace, CannotPlot) as error:
        sys.exit(f"grn simulate: {error}")
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


def _compare(cases: list[Case], processes: int, json_path: str | None) -> None:
    notes = notes_of(cases)
    results = play_all(cases, processes, _progress)
    ordered: Results = {case: results[case] for case in cases}
    rows = rows_of(ordered)
    _give(as_facts(ordered, rows, notes), json_path)
    if json_path != "-":
        show(rows, notes)


def _what_if(cases: list[Case], extra: int, json_path: str | None) -> None:
    case = _first_of_ours(cases)
    if case.scene.devices + extra < 1:
        raise BadPlan(f"there are only {case.scene.devices} devices to begin with")
    now, then = play(case)[1], play(case, extra_devices=extra)[1]
    devices = [case.scene.devices, case.scene.devices + extra]
    facts = {
        "devices": devices,
        "makespan_s": [now.makespan_s, then.makespan_s],
        "mean_wait_s": [now.mean_wait_s, then.mean_wait_s],
        "mean_jct_s": [now.mean_jct_s, then.mean_jct_s],
    }
    _give(facts, json_path)
    if json_path != "-":
        click.echo(f"{case.scene.workload}, load {case.load:g}, {BY_NAME[case.policy].title}")
        for count, figures in zip(devices, (now, then), strict=True):
            click.echo(f"{count:>3} devices: {_in_words(figures)}")


def _in_words(figures: Figures) -> str:
    return (
        f"all done after {duration(figures.makespan_s)}, "
        f"a job waits {duration(figures.mean_wait_s)} on average "
        f"and is done {duration(figures.mean_jct_s)} after it came"
    )


def _first_of_ours(cases: list[Case]) -> Case:
    """The run to look at closely: with profiles if it may be, as after the first day."""
    ranks = {"warm": 0, "cold": 1}
    return min(cases, key=lambda case: (ranks.get(case.policy, 2), case.scene.seed))


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
