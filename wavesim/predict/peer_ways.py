"""Which way of communicating to take by the number of rows, as predicted, for a product over several GPUs.

Example: of M x 7,168 x 4,096 and its all-reduce on two H200s a library's one-shot all-reduce is fastest up to
some M, and from there on tiles that leave as they are made. Simulated at powers of two; nothing is measured.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from wavesim.errors import DescriptionError
from wavesim.model.device import Device
from wavesim.predict.peer_forecast import BASELINE, PeerForecast, past_tiles, product_forecast
from wavesim.work.collective.host import Host

LEAST_M, MOST_M = 1, 16_384
WAYS = (
    "one-shot",
    "two-shot",
    "chunks:4",
    "stores",
)  # SMs kept beside a product never were the fastest by much


@dataclass(frozen=True)
class WaysAtM:
    """Simulated ns of every way at M rows; `best` is what to take, with `library` the best that needs no
    kernel of ours.
    """

    m: int
    times_ns: Mapping[str, int]
    best: str
    library: str

    def speedup(self, way: str) -> float:
        """How many times as fast as one after the other."""
        return self.times_ns[BASELINE.word] / self.times_ns[way]

    @property
    def is_ours(self) -> bool:
        """Whether tiles that leave as they are made are worth it."""
        return self.best != self.library


@dataclass(frozen=True)
class WayRange:
    """Take `way` from `m_from` to `m_to` rows: `least` to `most` times as fast as one after the other."""

    m_from: int
    m_to: int
    way: str
    least: float
    most: float


@dataclass(frozen=True)
class PeerCrossover:
    """All sizes of one product, and the ranges that follow."""

    name: str
    device: str
    gpus: int
    link: str
    n: int
    k: int
    sizes: Sequence[WaysAtM]

    @property
    def table(self) -> tuple[WayRange, ...]:
        """One way from each size to the last row before the next that takes another."""
        rows: list[list[WaysAtM]] = []
        for size in self.sizes:
            if rows and rows[-1][-1].best == size.best:
                rows[-1].append(size)
            else:
                rows.append([size])
        ends = [*(row[0].m - 1 for row in rows[1:]), self.sizes[-1].m]
        return tuple(_range(row, end) for row, end in zip(rows, ends, strict=True))

    @property
    def pays_from(self) -> int | None:
        """The least simulated M from which on tiles always beat every way of a library; None for none."""
        first = None
        for size in reversed(self.sizes):
            if not size.is_ours:
                break
            first = size.m
        return first


def peer_crossover(
    name: str,
    size: tuple[int, int],
    host: Host,
    device: Device,
    rows: tuple[int, int],
    ways: Sequence[str] = WAYS,
    progress: Callable[[int, int], None] | None = None,
) -> PeerCrossover:
    """Simulates a product of (n, k) = `size`, k a GPU's own part, and the host's collective "gemm".

    `rows`: first and last M. Raises `DescriptionError`.
    """
    sizes, at = [], _sizes(*rows)
    for number, m in enumerate(at):
        if progress is not None:
            progress(number, len(at))
        sizes.append(_at(m, product_forecast((m, *size), host, device, ways)))
    return PeerCrossover(name, device.name, host.gpus, host.link.name, *size, tuple(sizes))


def text_of(crossover: PeerCrossover) -> str:
    """The table, and from where on tiles pay."""
    where = f"{crossover.gpus} GPUs ({crossover.device}, link {crossover.link})"
    lines = [
        f"{crossover.name} on {where}, K {crossover.k:,} each, N {crossover.n:,}",
        f"{'rows M':>15}  {'way':<20}{'times':>14}",
    ]
    lines += [
        f"{f'{row.m_from} to {row.m_to}':>15}  {row.way:<20}{f'{row.least:.2f} to {row.most:.2f}':>14}"
        for row in crossover.table
    ]
    pays = f"M = {crossover.pays_from:,}" if crossover.pays_from else "nowhere"
    lines.append(f"tiles that leave as they are made pay, over every way of a library, from: {pays}")
    return "\n".join([*lines, ""])


def margin() -> float:
    """How many times as fast as a library's ways ours have to be: by what nine in ten of the ways that the
    model was fitted to are off by at most. What it was registered for before was off by more.
    """
    return 1.0 + float(past_tiles()["fitted"]["p90"]) / 100


def _sizes(first: int, last: int) -> list[int]:
    """Both ends, and the powers of two between them."""
    if not LEAST_M <= first <= last <= MOST_M:
        raise DescriptionError(f"m is {first}:{last}; rows over several GPUs are {LEAST_M} to {MOST_M:,}")
    between = [1 << power for power in range(MOST_M.bit_length()) if first < 1 << power < last]
    return sorted({first, *between, last})


def _at(m: int, forecast: PeerForecast) -> WaysAtM:
    times = {time.word: time.time_ns for time in forecast.times}
    library = min((time for time in forecast.times if time.way.is_library), key=lambda time: time.time_ns)
    return WaysAtM(m, times, forecast.best_over(library, margin()).word, library.word)


def _range(sizes: Sequence[WaysAtM], end: int) -> WayRange:
    gains = [size.speedup(size.best) for size in sizes]
    return WayRange(sizes[0].m, end, sizes[0].best, min(gains), max(gains))
