"""All there is to prove that nothing is lost, in its full form: `python -m tests.faults`.

python -m tests.faults                      everything; about an hour
python -m tests.faults soak --scale 0.02    the soak alone, or a part of it
"""

import argparse
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

from tests.faults.soak import soak

ROOT: Final = Path(__file__).parents[2]
# The long forms of the suites, by the variables that ask for them.
LONG: Final = {"GRN_FAULTS": "full", "GRN_SIM_SEEDS": "2000", "GRN_SIM_STEPS": "500"}
PYTEST: Final = (sys.executable, "-m", "pytest")
# For one test in its long form, on a loaded machine.
MOST_S: Final = 1800
SUITES: Final = {
    "faults": "tests/faults",
    "simulation": "tests/simulation",
    "model": "tests/model",
}


def run_suite(name: str, where: str) -> tuple[bool, str]:
    """Run one suite in its long form; give whether it passed, and its last line."""
    began = time.monotonic()
    done = subprocess.run(
        [*PYTEST, where, "-q", "-rs", "-p", "no:cacheprovider", f"--timeout={MOST_S}"],
        cwd=ROOT,
        env={**os.environ, **LONG},
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    print(done.stdout, flush=True)
    last = (done.stdout.strip().splitlines() or [""])[-1]
    counted = re.sub(r" in .*", "", last.strip("= "))
    return done.returncode == 0, f"{name}: {counted}; {time.monotonic() - began:.0f} s"


def run_soak(scale: float, seed: int) -> tuple[bool, str]:
    """Run the soak; keep its log only if something is wrong."""
    directory = Path(tempfile.mkdtemp(prefix="grn-soak-"))
    report = soak(scale, seed, directory)
    text = f"{report.text()}\n  seed: {seed}, scale: {scale}"
    if not report.clean:
        return False, f"{text}\n  its log: {directory / 'log'}"
    for path in directory.iterdir():
        path.rmdir() if path.is_dir() else path.unlink()
    directory.rmdir()
    return True, text


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("what", nargs="?", choices=["all", *SUITES, "soak"], default="all")
    parser.add_argument("--scale", type=float, default=1.0, help="of the soak")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="of the soak")
    asked = parser.parse_args()
    # What is started in the background by a script ignores Ctrl-C, and so would all clients.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    results = [
        run_suite(name, where) for name, where in SUITES.items() if asked.what in ("all", name)
    ]
    if asked.what in ("all", "soak"):
        results.append(run_soak(asked.scale, asked.seed))
    print("\n".join(f"{'ok  ' if passed else 'FAIL'} {text}" for passed, text in results))
    sys.exit(0 if all(passed for passed, _ in results) else 1)


if __name__ == "__main__":
    main()
