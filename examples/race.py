"""Two programs that race for GPUs, in slow motion: whoever comes second waits.

Looking which GPUs are free and claiming them later is a race: two programs see the same ones.
Here each looks while it has all of them, for as long as --sleep says, and the broker lets
nobody in between. Run two at once on a machine with three GPUs, and see one wait for the other:

python examples/race.py --id 1 --nb-gpus 1 & python examples/race.py --id 2 --nb-gpus 2

Both need a broker (grn start --detach). --backend makes claims visible to programs that look at
the GPUs themselves; it needs that framework.
"""

import argparse
import logging
import time

import grn_zmq as grn

BACKENDS = ("none", "pytorch", "tensorflow", "pycuda")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--id", default="1", help="what the lines of this claimer begin with")
    parser.add_argument("--nb-gpus", type=int, default=1, help="how many GPUs to claim")
    parser.add_argument("--sleep", type=float, default=5.0, help="seconds for each step")
    parser.add_argument("--backend", choices=BACKENDS, default="none", help="the placeholder")
    return parser.parse_args()


def main() -> None:
    given = parse()
    form = f"claimer {given.id}  %(asctime)s  %(message)s"
    logging.basicConfig(format=form, datefmt="%H:%M:%S", level=logging.INFO)
    log = logging.getLogger("race")
    with grn.acquire(-1, logger=log) as seen:
        log.info("looking at GPUs %s for %g s", seen.devices, given.sleep)
        time.sleep(given.sleep)
    placeholder = None if given.backend == "none" else given.backend
    with grn.acquire(given.nb_gpus, placeholder=placeholder, logger=log) as lease:
        log.info("working on GPUs %s for %g s", lease.devices, given.sleep)
        time.sleep(given.sleep)
    log.info("finished")


if __name__ == "__main__":
    main()
