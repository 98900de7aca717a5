"""What `grn top` shows: a scene, what is chosen in it, and a size make a frame of lines."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ...facts import JobRow, Scene
from ..common import counted, printable
from ..listing import in_order
from .devicelines import device_lines
from .joblines import job_lines, told_of
from .styled import Line, Span, clipped_line

KEYS: Final = "↑↓ move  c cancel  l log  h hold  p pause  ? help  q quit"
# The line of counts, two headers, what bars mean, the chosen job, and the keys.
_FIXED: Final = 6


@dataclass(frozen=True, slots=True)
class Shown:
    """What a frame says beside its scene.

    `first` is the place in the list of the job in the uppermost line, `chosen` that of the
    chosen one, -1 for none. `rate` is how many jobs ended in a second, None if unknown.
    """

    title: str = "grn top"
    first: int = 0
    chosen: int = -1
    rate: float | None = None
    trouble: str = ""
    footer: Line = (Span(KEYS, "faint"),)


@dataclass(frozen=True, slots=True)
class Layout:
    """How many devices and jobs a screen shows."""

    devices: int
    jobs: int


def layout(devices: int, height: int) -> Layout:
    """Share the lines of a screen: devices first, but half of them for jobs."""
    lines = max(0, height - _FIXED)
    for_devices = devices if devices <= lines - lines // 2 else max(0, lines - lines // 2)
    return Layout(for_devices, lines - for_devices)


def render(scene: Scene | None, shown: Shown, width: int, height: int) -> list[list[Span]]:
    """Give exactly `height` lines of at most `width` cells: a frame of the live view."""
    room = layout(len(scene.devices) if scene else 0, height)
    body = _body(scene, shown, width, room) if scene else []
    lines: list[Line] = [_head(scene, shown), *body]
    lines = lines[: height - 2] + [()] * max(0, height - 2 - len(lines))
    lines += [_chosen(scene, shown), shown.footer]
    return [clipped_line(line, width) for line in lines[-height:]]


def whole(scene: Scene, width: int) -> list[list[Span]]:
    """Give all there is in as many lines as it takes: a frame on paper."""
    shown = Shown()
    lines = [_head(scene, shown), *_body(scene, shown, width, _all_of(scene))]
    more = scene.queued + scene.running - scene.first - len(scene.rows)
    if more > 0:
        lines.append([Span(f"… and {counted(more, 'more job')}: `grn ps` lists all")])
    return [clipped_line(line, width) for line in lines]


def _all_of(scene: Scene) -> Layout:
    return Layout(len(scene.devices), len(scene.rows))


def _head(scene: Scene | None, shown: Shown) -> Line:
    """The counts; or what is wrong, which is more important than old figures."""
    line = [Span(shown.title, "strong")]
    if shown.trouble:
        line.append(Span(f"  {shown.trouble}", "bad"))
    if scene is None:
        return line
    rate = "" if shown.rate is None else f"  {shown.rate:.1f} ended/s"
    counts = f"  {scene.running:,} running  {scene.queued:,} queued{rate}"
    line.append(Span(counts, "faint" if shown.trouble else ""))
    if scene.paused:
        line.append(Span("  queue paused", "warning"))
    if scene.stopping:
        line.append(Span("  stopping", "warning"))
    return line


def _body(scene: Scene, shown: Shown, width: int, room: Layout) -> list[Line]:
    rows, at = rows_from(scene, shown.first, room.jobs)
    devices = device_lines(in_order(scene.devices), width, room.devices)
    return [*devices, *job_lines(rows, width, shown.chosen - at)]


def rows_from(scene: Scene, first: int, most: int) -> tuple[Sequence[JobRow], int]:
    """The rows of the scene from that place in the list on, and the place they begin at."""
    begin = max(0, first - scene.first)
    return scene.rows[begin : begin + most], scene.first + begin


def row_at(scene: Scene | None, place: int) -> JobRow | None:
    """The job at that place in the list, if the scene has that part of it."""
    if scene is None or not 0 <= place - scene.first < len(scene.rows):
        return None
    return scene.rows[place - scene.first]


def _chosen(scene: Scene | None, shown: Shown) -> Line:
    row = row_at(scene, shown.chosen)
    return () if row is None else [Span(printable(told_of(row)))]
