"""Train one model to read digits: an ordinary script, driven nine times by an outer tool.

grn start --detach
make -j9 -f examples/mnist/Makefile
python examples/mnist/train.py --model mlp --seed 1
"""

import argparse
import os

from digits import make_digits

import grn_zmq as grn


@grn.job(by=("model",))  # three models, three needs; the seed changes nothing
def train(model: str, seed: int) -> str:
    """Train on digits made here; return one line about it."""
    try:
        from with_torch import fit
    except ImportError:  # no torch: the same models, smaller, in plain Python
        from with_python import fit
    accuracy = fit(model, seed, make_digits(400, seed), make_digits(200, 1000 + seed))
    device = os.environ.get("GRN_DEVICE", "this process")
    return f"{model:<6} seed {seed}: {accuracy:.0%} of digits read, on {device}"


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", choices=("linear", "mlp", "conv"), default="linear")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    print(train(given.model, given.seed))
