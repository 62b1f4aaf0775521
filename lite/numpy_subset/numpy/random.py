"""NumPy's default generator, draw for draw to fourteen digits: simulated DRAM serves alike in a browser.

Example: `default_rng(576).gamma(2.0, 0.5, 576)` gives the numbers that NumPy gives. PCG64 (O'Neill, 2014,
XSL-RR) seeded by NumPy's `SeedSequence`; normal draws by the ziggurat method (Marsaglia and Tsang, 2000) with
256 sections, gamma draws by Marsaglia and Tsang's rejection (2000).
"""

import math
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from ._array import ndarray
from ._types import FLOAT, INT

WORD, DOUBLE, QUAD = (1 << 32) - 1, (1 << 64) - 1, (1 << 128) - 1
MULTIPLIER = 0x2360ED051FC65DA44385DF649FCCF645
SECTIONS = 256
TAIL = 3.6541528853610087963519472518  # where the last section ends
SECTION_AREA = 0.0049286732339746549  # of each section: the last one's rectangle and the tail beyond it


def _hashed(value: int, constant: int, multiplier: int) -> tuple[int, int]:
    """One step of the seed's hash: the mixed word, and the next constant."""
    value ^= constant
    constant = constant * multiplier & WORD
    value = value * constant & WORD
    return value ^ value >> 16, constant


def _mixed(one: int, other: int) -> int:
    found = (0xCA01F9DD * one - 0x4973F715 * other) & WORD
    return found ^ found >> 16


def seed_words(seed: int) -> list[int]:
    """The four 64-bit words that NumPy's `SeedSequence` makes of a seed below 2**128."""
    entropy = [seed >> shift & WORD for shift in range(0, 128, 32)]
    constant, pool = 0x43B0D7E5, []
    for word in entropy:
        word, constant = _hashed(word, constant, 0x931E8875)  # noqa: PLW2901
        pool.append(word)
    for source in range(4):
        for target in range(4):
            if source != target:
                word, constant = _hashed(pool[source], constant, 0x931E8875)
                pool[target] = _mixed(pool[target], word)
    constant, words = 0x8B51F9DD, []
    for index in range(8):
        word, constant = _hashed(pool[index % 4], constant, 0x58F38DED)
        words.append(word)
    return [low | high << 32 for low, high in zip(words[::2], words[1::2], strict=True)]


class Ziggurat(NamedTuple):
    """By section: the mantissa below which a draw is taken at once, width per mantissa, height."""

    sure: list[int]
    width: list[float]
    height: list[float]


@lru_cache
def _ziggurat() -> Ziggurat:
    """The sections' borders, from the outermost inwards."""
    scale = 1 << 52
    sure, width, height = [0] * SECTIONS, [0.0] * SECTIONS, [1.0] * SECTIONS
    edge = TAIL
    width[-1], height[-1] = edge / scale, math.exp(-0.5 * edge * edge)
    sure[0], width[0] = int(edge * height[-1] / SECTION_AREA * scale), SECTION_AREA / height[-1] / scale
    for index in range(SECTIONS - 2, 0, -1):
        inner = math.sqrt(-2.0 * math.log(SECTION_AREA / edge + height[index + 1]))
        sure[index + 1] = int(inner / edge * scale)
        width[index], height[index] = inner / scale, math.exp(-0.5 * inner * inner)
        edge = inner
    return Ziggurat(sure, width, height)


class Generator:
    """Random numbers from a seed; the distributions that wavesim draws from."""

    def __init__(self, seed: int) -> None:
        words = seed_words(seed)
        self._step = (words[2] << 64 | words[3]) << 1 & QUAD | 1
        self._state = self._step + (words[0] << 64 | words[1])
        self._advance()
        self._upper: int | None = None  # half of a draw that was taken in halves

    def _advance(self) -> int:
        self._state = state = (self._state * MULTIPLIER + self._step) & QUAD
        return state

    def _bits(self) -> int:
        """64 random bits: the halves of the state, folded and turned by its top six bits."""
        state = self._advance()
        folded, turn = (state >> 64 ^ state) & DOUBLE, state >> 122
        return (folded >> turn | folded << (64 - turn)) & DOUBLE

    def _uniform(self) -> float:
        return (self._bits() >> 11) * (1.0 / (1 << 53))

    def _normal(self) -> float:
        table = _ziggurat()
        while True:
            bits = self._bits()
            section, mantissa = bits & 0xFF, bits >> 9 & (1 << 52) - 1
            found = mantissa * table.width[section]
            found = -found if bits >> 8 & 1 else found
            if mantissa < table.sure[section]:
                return found
            if section == 0:
                return self._tail(is_negative=bool(mantissa >> 8 & 1))
            low, high = table.height[section], table.height[section - 1]
            if (high - low) * self._uniform() + low < math.exp(-0.5 * found * found):
                return found

    def _tail(self, *, is_negative: bool) -> float:
        while True:
            beyond = -math.log1p(-self._uniform()) / TAIL
            height = -math.log1p(-self._uniform())
            if height + height > beyond * beyond:
                return -(TAIL + beyond) if is_negative else TAIL + beyond

    def _gammas(self, shape: float) -> Iterator[float]:
        if shape <= 1:
            raise ValueError("this page's part of NumPy draws gammas of a shape above 1")
        b = shape - 1.0 / 3.0
        c = 1.0 / math.sqrt(9 * b)
        while True:
            x = self._normal()
            v = 1.0 + c * x
            if v <= 0.0:
                continue
            v, u = v * v * v, self._uniform()
            is_sure = u < 1.0 - 0.0331 * (x * x) * (x * x)
            if is_sure or math.log(u) < 0.5 * x * x + b * (1.0 - v + math.log(v)):
                yield b * v

    def _half(self) -> int:
        """32 random bits: the lower half of a draw, then the upper."""
        upper, self._upper = self._upper, None
        if upper is None:
            bits = self._bits()
            upper, self._upper = bits & WORD, bits >> 32
        return upper

    def _up_to(self, most: int) -> int:
        """A whole number up to `most`: as few bits as it has, drawn again where they are too many."""
        while True:
            value = self._half() & (1 << most.bit_length()) - 1
            if value <= most:
                return value

    def permutation(self, count: int) -> ndarray:
        """The numbers below `count`, shuffled."""
        order = list(range(count))
        for last in range(count - 1, 0, -1):
            other = self._up_to(last)
            order[last], order[other] = order[other], order[last]
        return ndarray(order, (count,), INT)

    def gumbel(self, size: tuple[int, int]) -> ndarray:
        """Draws of the standard Gumbel distribution, (rows, columns)."""
        draws = (1.0 - self._uniform() for _ in range(size[0] * size[1]))
        return ndarray([-math.log(-math.log(draw)) for draw in draws], size, FLOAT)

    def gamma(self, shape: float, scale: float, size: int) -> ndarray:
        """Draws of the gamma distribution, (size,)."""
        draws = self._gammas(shape)
        return ndarray([scale * next(draws) for _ in range(size)], (size,), FLOAT)

    def normal(self, mean: float, deviation: float, size: int) -> ndarray:
        """Draws of the normal distribution, (size,)."""
        return ndarray([mean + deviation * self._normal() for _ in range(size)], (size,), FLOAT)


def default_rng(seed: int) -> Generator:
    """NumPy's generator from a seed."""
    return Generator(seed)
