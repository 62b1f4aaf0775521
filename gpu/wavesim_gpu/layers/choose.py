"""Which way computes an MLP fastest, by estimate: our kernels under several plans, or cuBLASLt.

Example: `choose(MlpShape(2048, 8192, 2816, 8192, "fp16", "swiglu", "packed"), load("h200"))` finds that 2.7
waves of the first product's tiles leave a third of the SMs idle, which one persistent kernel for both
products does not, and says how long it is predicted to take, and how long cuBLASLt. It needs no GPU and takes
milliseconds.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import islice
from operator import itemgetter
from typing import Literal

from wavesim.costs.device_costs import default_device, law_of
from wavesim.errors import DescriptionError
from wavesim.model.device import Device
from wavesim.predict.forecast import Forecast
from wavesim.predict.pair_schedule import ScheduledProduct, overlapped_ns
from wavesim.predict.ranking import ForecastPlan, promising
from wavesim.safety.verdict import SafetyVerdict
from wavesim.work.gemm.products import ProductCosts, ProductTile
from wavesim.work.law import bent
from wavesim_gpu.kernels.gemm.sm90.gemm_sm90 import HOPPER_CAPABILITY, Hopper
from wavesim_gpu.layers.candidates import FUSED, IN_TURN, ONE_WAVE, ROWS, MlpCandidate
from wavesim_gpu.layers.description import MlpShape

LIBRARY = "cublaslt"
ESTIMATED: Literal["estimated"] = "estimated"  # by a list schedule of tiles: no engine runs
# What cuBLASLt's kernels on Hopper are cut into. Our rows are its columns, which wgmma has in steps of eight:
# it is taken to find the best. With few rows it was not seen to.
FEW_ROWS_TILES = ((128, 256), (256, 128), (128, 192), (192, 128), (128, 128), (64, 256), (64, 128))
LIBRARY_TILES = tuple(
    (rows, columns)
    for rows in range(64, 265, 8)
    for columns in (64, 128, 192, 256)
    if rows * columns <= 192 * 192
)
SPLITS = (1, 2, 3, 4, 6, 8)
LIBRARY_EPILOGUES = (
    None,
    "gelu",
    "relu",
)  # others: a pass of its own
GROUPS = (4, 8)
# So many rows stream weights through in about a wave of blocks: a block per tile is faster there than blocks
# that stay, and tiles that wait beside the other product's take memory bandwidth from it.
FEW_ROWS = 256
TRIED = 3  # best cuts of each product by each measure, and ways that are ranked
PROMISED = SafetyVerdict(
    True, "a kernel after the other, one kernel, or dependent launch: CUDA guarantees it"
)

Cuts = tuple[ProductTile, ProductTile]
Timed = tuple[float, MlpCandidate]  # the ns that list scheduling gives a candidate


@dataclass(frozen=True)
class Choice:
    """A way and its time, and cuBLASLt's, in ns; 0 where nobody knows it.

    `basis` says whether they were estimated, by a list schedule of the products' tiles, or measured; "none"
    where there was nothing to choose, and
    `reason` says why. `candidate` None is cuBLASLt, by its `algorithms` where those were measured, or what
    stands in for it. `interval_points`: where the
    gain lies in 80 % of such predictions.
    """

    label: str
    predicted_ns: float = 0.0
    library_ns: float = 0.0
    basis: Literal["estimated", "measured", "none"] = "none"
    candidate: MlpCandidate | None = None
    reason: str = ""
    interval_points: tuple[float, float] | None = None
    algorithms: tuple[tuple[str, str], ...] = ()

    @property
    def gain_points(self) -> float:
        """Time saved over cuBLASLt, in points of its time."""
        return 100 * (1 - self.predicted_ns / self.library_ns) if self.library_ns else 0.0

    def __str__(self) -> str:
        if self.basis == "none":
            return f"{self.label}: {self.reason}" if self.reason else self.label
        times = f"{self.predicted_ns / 1e3:.1f} us, cuBLASLt {self.library_ns / 1e3:.1f} us"
        return f"{self.label}: {times} ({self.basis})"


def only(label: str, reason: str) -> Choice:
    """What is taken because nothing else can be."""
    return Choice(label, reason=reason)


def forced(candidate: MlpCandidate | None) -> Choice:
    """What somebody asked for."""
    return Choice(str(candidate) if candidate else LIBRARY, candidate=candidate, reason="asked for")


@lru_cache(maxsize=4096)
def choose(shape: MlpShape, device: Device) -> Choice:
    """The way to recommend of those predicted; cuBLASLt unless ours gains more than the margin.

    Ways are ranked by `promising`, as every command ranks plans, here by gains over cuBLASLt. The margin is
    `products.margin_points` of the device's costs. Devices on which no products were timed get cuBLASLt, and
    the reason says so. **Measuring overrides this**: what `tune` timed, on this machine, is kept, and `mlp`
    asks here for the other shapes only.
    """
    costs = law_of(ProductCosts, device.name)
    if costs is None:
        return only(LIBRARY, f"no products were timed on the {device.name}, so nothing can be predicted")
    library_ns = predicted_library_ns(shape, device, costs)
    best = _recommended(shape, device, library_ns, costs.interval_points)
    if best is None or best[0] > library_ns * (1 - costs.margin_points / 100):
        return Choice(LIBRARY, library_ns, library_ns, ESTIMATED, interval_points=(0.0, 0.0))
    ns, candidate = best
    plain = Choice(str(candidate), ns, library_ns, ESTIMATED, candidate)
    gain, off = plain.gain_points, costs.interval_points
    return replace(plain, interval_points=(gain - off, gain + off))


def _recommended(shape: MlpShape, device: Device, library_ns: float, off: float) -> Timed | None:
    """The best of ours by the rule of all recommendations; None where ours compute none of it."""
    timed = predicted(shape, device, most=TRIED)
    gains = [100 * (1 - ns / library_ns) for ns, _ in timed]
    options = [
        ForecastPlan(candidate.plan(), PROMISED, Forecast(gain, gain - off, gain + off, support="here"))
        for gain, (_, candidate) in zip(gains, timed, strict=True)
    ]
    best = promising(options)
    return None if best is None else timed[next(i for i, option in enumerate(options) if option is best)]


def predicted(shape: MlpShape, device: Device, most: int) -> list[Timed]:
    """At most so many candidates of ours that the kernels can compute, fastest first."""
    return _fastest(shape, device, most, law_of(ProductCosts, device.name))


def worth_timing(shape: MlpShape, device: Device, most: int) -> list[Timed]:
    """The same for measuring, also on a Hopper GPU whose products nobody timed: another's only order them."""
    costs = law_of(ProductCosts, device.name) or law_of(ProductCosts, default_device())
    return _fastest(shape, device, most, costs)


def _fastest(shape: MlpShape, device: Device, most: int, costs: ProductCosts | None) -> list[Timed]:
    if costs is None or device.compute_capability != HOPPER_CAPABILITY:
        return []
    pair = _Pair(shape, device, costs)
    overlapped = pair.overlapped(most) if shape.m > FEW_ROWS else []
    fastest = sorted([*pair.in_turn(), *overlapped], key=itemgetter(0))
    return list(islice((timed for timed in fastest if _runs(timed[1], shape)), most))


def predicted_library_ns(shape: MlpShape, device: Device, costs: ProductCosts) -> float:
    """CuBLASLt's products, one after the other, and the element-wise passes that it does not fuse."""
    columns = shape.products if shape.gate == "packed" else shape.n1
    first = _library_product_ns(shape.m, columns, shape.k, device, costs)
    total = costs.setup_ns + first + costs.boundary_ns
    if shape.gate == "separate":
        total += first + costs.boundary_ns
    total += _library_product_ns(shape.m, shape.n2, shape.n1, device, costs)
    if shape.gate or shape.activation not in LIBRARY_EPILOGUES:
        total += costs.pass_ns(shape.m * shape.n1 * (3 if shape.gate else 2))
    return total


def _library_product_ns(m: int, n: int, k: int, device: Device, costs: ProductCosts) -> float:
    floor = costs.floor_ns(m, n, k, is_library=True)
    shapes = FEW_ROWS_TILES if m <= FEW_ROWS else LIBRARY_TILES
    tiles = (ProductTile(*tile, split) for tile in shapes for split in (1, 2, 4))
    times = (
        -(-tile.count(m, n) // device.sm_count) * costs.tile_ns(tile, m, k, adds_apart=True) for tile in tiles
    )
    return bent(min(times) * costs.library_ratio, floor)


def _alone_ns(tile: ProductTile, m: int, n: int, k: int, device: Device, costs: ProductCosts) -> float:
    """Wave after wave, as if DRAM were infinitely fast."""
    return -(-tile.count(m, n) // device.sm_count) * costs.tile_ns(tile, m, k)


class _Pair:
    """The two products of a shape, and what each of their cuts takes."""

    def __init__(self, shape: MlpShape, device: Device, costs: ProductCosts) -> None:
        self.shape, self.device, self.costs = shape, device, costs
        self.sizes = ((shape.m, shape.products, shape.k), (shape.m, shape.n2, shape.n1))
        self.floor_ns = [costs.floor_ns(*size) for size in self.sizes]
        # Of two tiles that take as long the wider one first: it was the faster one wherever both were timed.
        self.tiles = sorted({(m, n) for m, n, _ in Hopper.tiles}, key=lambda t: (-t[1], t[0]))

    def in_turn(self) -> Iterator[Timed]:
        """A kernel after the other, each in its best cuts."""
        outside = self.costs.setup_ns + 2 * self.costs.begin_ns(self.shape.m) + self.costs.dependent_ns
        seconds = self._by_waves(1)
        for first_ns, first in self._by_waves(0):
            for second_ns, second in seconds:
                order = self._order(first, max(GROUPS))
                plan = ONE_WAVE if self.shape.m <= FEW_ROWS else IN_TURN
                yield outside + first_ns + second_ns, MlpCandidate(plan, order, (first, second))

    def overlapped(self, most: int) -> list[Timed]:
        """The second product's tiles wait for rows of the first's, in one kernel or in two.

        Those are left out whose work alone takes as long as the best `most` with their waits.
        """
        timed: list[Timed] = []
        for least_ns, plan, first, second in sorted(self._works(), key=itemgetter(0)):
            if len(timed) >= most and least_ns >= timed[most - 1][0]:
                break
            for group in GROUPS if first.tile_m * 2 < self.shape.m else GROUPS[:1]:
                ns = self._overlapped_ns(plan, first, second, group)
                timed.append((ns, MlpCandidate(plan, self._order(first, group), (first, second))))
            timed.sort(key=itemgetter(0))
        return timed

    def _works(self) -> Iterator[tuple[float, str, ProductTile, ProductTile]]:
        """What cannot be faster than so many ns: plan and cuts."""
        firsts, seconds = self._by_work(0), self._by_work(1)
        for cut in dict.fromkeys([*firsts, *seconds]):
            yield self._least_ns(FUSED, cut, cut), FUSED, cut, cut
        for first in firsts:
            for second in seconds:
                yield self._least_ns(ROWS, first, second), ROWS, first, second

    def _least_ns(self, plan: str, first: ProductTile, second: ProductTile) -> float:
        products = self._products(plan, (first, second), GROUPS[0])
        work = sum(product.tiles * product.tile_ns for product in products)
        return self._outside_ns(plan) + work / self.device.sm_count

    def _overlapped_ns(self, plan: str, first: ProductTile, second: ProductTile, group: int) -> float:
        products = self._products(plan, (first, second), group)
        both = overlapped_ns(products[0], products[1], self.device.sm_count)
        return self._outside_ns(plan) + bent(both, sum(self.floor_ns))

    def _outside_ns(self, plan: str) -> float:
        launch = self.costs.dependent_ns if plan == ROWS else 0
        return self.costs.setup_ns + self.costs.begin_ns(self.shape.m) + launch

    def _products(self, plan: str, cuts: Cuts, group: int) -> list[ScheduledProduct]:
        waits = (self.costs.post_ns, self.costs.fetch_ns) if plan == ROWS else (0, 0)
        return [
            ScheduledProduct(
                -(-n // cut.tile_n),
                -(-m // cut.tile_m),
                self.costs.tile_ns(ProductTile(cut.tile_m, cut.tile_n), m, k) + wait,
                group,
                cut.tile_m,
            )
            for cut, (m, n, k), wait in zip(cuts, self.sizes, waits, strict=True)
        ]

    def _order(self, first: ProductTile, group: int) -> str:
        """Groups of rows, or columns where there are few rows of tiles: whole weights are read once."""
        return "column" if self.shape.m <= 2 * first.tile_m else f"grouped:{group}"

    def _by_waves(self, stage: int) -> list[tuple[float, ProductTile]]:
        """The cuts of a product that take least alone, with DRAM's time."""
        m, n, k = self.sizes[stage]
        values = []
        for tile in self.tiles:
            for split in SPLITS:
                if split == 1 or ProductTile(*tile, split).count(m, n) <= self.device.sm_count:
                    alone = _alone_ns(ProductTile(*tile, split), m, n, k, self.device, self.costs)
                    values.append((bent(alone, self.floor_ns[stage]), ProductTile(*tile, split)))
        return sorted(values, key=itemgetter(0))[:TRIED]

    def _by_work(self, stage: int) -> list[ProductTile]:
        """Unsplit cuts with the least work in all, and those that take least alone."""
        m, n, k = self.sizes[stage]
        work = {
            ProductTile(*tile): ProductTile(*tile).count(m, n) * self.costs.tile_ns(ProductTile(*tile), m, k)
            for tile in self.tiles
        }
        alone = [replace(cut, split_k=1) for _, cut in self._by_waves(stage)]
        return list(dict.fromkeys([*sorted(work, key=work.__getitem__)[:TRIED], *alone]))


def _runs(candidate: MlpCandidate, shape: MlpShape) -> bool:
    """Whether the backend computes it: tiles, sizes, element types, gates, biases, orders, plan."""
    try:
        candidate.planned(shape)
    except DescriptionError:
        return False
    return True
