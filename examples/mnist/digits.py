"""Handwritten-looking digits made here: small bitmaps, shifted and smudged at random."""

import random

SIDE = 8
PIXELS = SIDE * SIDE

# One character per pixel of each of the ten digits, five wide and seven high.
FONT = """
.###. ..#.. .###. ####. ...#. ##### .###. ##### .###. .###.
#...# .##.. #...# ....# ..##. #.... #.... ....# #...# #...#
#...# ..#.. ....# ....# .#.#. ####. #.... ...#. #...# #...#
#...# ..#.. ..##. .###. #..#. ....# ####. ..#.. .###. .####
#...# ..#.. .#... ....# ##### ....# #...# ..#.. #...# ....#
#...# ..#.. #.... ....# ...#. #...# #...# ..#.. #...# ....#
.###. .###. ##### ####. ...#. .###. .###. ..#.. .###. .###.
"""
ROWS = [line.split() for line in FONT.split("\n") if line]

Example = tuple[list[float], int]


def make_digits(count: int, seed: int) -> list[Example]:
    """Give so many images of eight by eight pixels between 0 and 1, each with its digit."""
    chance = random.Random(seed)
    return [_draw(digit, chance) for digit in (chance.randrange(10) for _ in range(count))]


def _draw(digit: int, chance: random.Random) -> Example:
    down, right = chance.randrange(2), chance.randrange(1, 3)
    image = [chance.uniform(0.0, 0.3) for _ in range(PIXELS)]
    for y, row in enumerate(ROWS):
        for x, pixel in enumerate(row[digit]):
            if pixel == "#":
                image[(y + down) * SIDE + x + right] = chance.uniform(0.6, 1.0)
    return image, digit
