"""Three models in plain Python: fixed features, and a softmax layer that is trained."""

import math
import random
from collections.abc import Callable

from digits import PIXELS, SIDE, Example

Features = list[float]

EPOCHS = 8
RATE = 0.05
CHANCE = random.Random(0)
HIDDEN = [[CHANCE.gauss(0, 0.3) for _ in range(PIXELS)] for _ in range(64)]


def linear(image: list[float]) -> Features:
    """The pixels themselves."""
    return [*image, 1.0]


def mlp(image: list[float]) -> Features:
    """A hidden layer of random weights; they stay as they are."""
    sums = (sum(w * p for w, p in zip(row, image, strict=True)) for row in HIDDEN)
    return [*(max(0.0, total) for total in sums), 1.0]


def conv(image: list[float]) -> Features:
    """Edges in four directions, the strongest of each patch of two by two."""
    features = []
    for dy, dx in ((0, 1), (1, 0), (1, 1), (1, -1)):
        for y in range(0, SIDE - 2, 2):
            for x in range(1, SIDE - 2, 2):
                patch = ((y, x), (y + 1, x), (y, x + 1), (y + 1, x + 1))
                features.append(
                    max(image[b * SIDE + a] * image[(b + dy) * SIDE + a + dx] for b, a in patch)
                )
    return [*features, 1.0]


MODELS: dict[str, Callable[[list[float]], Features]] = {
    "linear": linear,
    "mlp": mlp,
    "conv": conv,
}


def fit(model: str, seed: int, training: list[Example], testing: list[Example]) -> float:
    """Train the softmax layer by gradient steps; return the part of the tests it gets right."""
    features = MODELS[model]
    examples = [(features(image), digit) for image, digit in training]
    weights = [[0.0] * len(examples[0][0]) for _ in range(10)]
    chance = random.Random(seed)
    for _ in range(EPOCHS):
        chance.shuffle(examples)
        for values, digit in examples:
            _step(weights, values, digit)
    tests = [(features(image), digit) for image, digit in testing]
    right = sum(_guess(weights, values) == digit for values, digit in tests)
    return right / len(tests)


def _step(weights: list[Features], values: Features, digit: int) -> None:
    exps = [math.exp(score) for score in _scores(weights, values)]
    total = sum(exps)
    for number, row in enumerate(weights):
        push = RATE * ((number == digit) - exps[number] / total)
        row[:] = [weight + push * value for weight, value in zip(row, values, strict=True)]


def _guess(weights: list[Features], values: Features) -> int:
    scores = _scores(weights, values)
    return scores.index(max(scores))


def _scores(weights: list[Features], values: Features) -> list[float]:
    return [sum(w * v for w, v in zip(row, values, strict=True)) for row in weights]
