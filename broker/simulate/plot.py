"""A picture of one run: each device's memory over time. Needs the extra `plot`."""

from pathlib import Path
from typing import Any, Final

from .jobs import GIB
from .story import Story

MISSING: Final = (
    "plots need matplotlib: pip install 'grn-zmq[plot]', in a checkout pip install -e '.[plot]'"
)


class CannotPlot(Exception):
    """The text says what to do about it."""


def load_matplotlib() -> Any:
    """Give the drawing module; said early, so that nobody waits for a run in vain."""
    try:
        import matplotlib
    except ImportError:
        raise CannotPlot(MISSING) from None
    matplotlib.use("Agg")  # a file, no window
    from matplotlib import pyplot

    return pyplot


def draw(story: Story, path: Path) -> None:
    """Write the memory that processes really held, device by device, as a PNG."""
    pyplot = load_matplotlib()
    stream = story.stream
    height = 1.0 + 1.1 * stream.devices
    figure, axes = pyplot.subplots(
        stream.devices, 1, sharex=True, squeeze=False, figsize=(11, height)
    )
    for index, curve in enumerate(story.memory):
        axis = axes[index][0]
        hours = [at / 3600 for at, _ in curve]
        axis.fill_between(hours, [used / GIB for _, used in curve], step="post", linewidth=0)
        axis.axhline(stream.device_bytes / GIB, color="black", linewidth=0.8)
        axis.set_ylim(0, 1.08 * stream.device_bytes / GIB)
        axis.set_ylabel(f"{index}\nGiB", rotation=0, labelpad=14, va="center")
    axes[0][0].set_title(f"{stream.name} under {story.policy}: memory of each device")
    axes[-1][0].set_xlabel("hours")
    figure.tight_layout()
    try:
        figure.savefig(path, format="png", dpi=110)
    except OSError as error:
        raise CannotPlot(f"cannot write {path}: {error.strerror}") from None
    finally:
        pyplot.close(figure)
