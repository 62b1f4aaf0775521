"""WaveRNN-896 as a kernel that stays: five products a step, five batches of 8, one cycle per stage.

Example: R has 2,688 rows of 896 weights; in blocks of 64 rows it is 42 blocks, the four output layers are 22.
Pipelined, all 64 work in every cycle, each layer for another batch: 32 steps take 164 cycles. One batch after
the other they take 800, of which each uses one layer's blocks.
Source: Fan Yu, "Persistent CUDA programming and its applications", NVIDIA, December 2019 (in Chinese).
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import Literal, get_args

from wavesim.costs.cost_model import CostModel
from wavesim.costs.device_costs import costs_of
from wavesim.errors import DescriptionError
from wavesim.model import device as devices
from wavesim.model.device import Device
from wavesim.model.kernel import Block, Grid, Kernel
from wavesim.model.pipeline import Pipeline
from wavesim.model.stage import Stage
from wavesim.plan.order import CustomOrder, Order, RowMajor
from wavesim.plan.plan import StreamSync
from wavesim.safe_io.bounds import MOST_NS, whole
from wavesim.safe_io.documents import read_toml
from wavesim.sim.simulation import simulate
from wavesim.trace.trace import Trace

FILE = Path(__file__).with_suffix(".toml")
Way = Literal["library", "batch", "persistent", "pipeline", "both"]
WAYS: tuple[Way, ...] = get_args(Way)
WAY_TEXTS: dict[Way, str] = {
    "library": "cuBLASLt, batch of 40",
    "batch": "own GEMM, batch of 40",
    "persistent": "persistent, no pipeline",
    "pipeline": "pipeline, launched cycle by cycle",
    "both": "persistent and pipelined",
}
BATCH, BATCHES, STEPS = 8, 5, 32
MOST_STEPS = 4096
# Fourteen warps each, as in the talk; what a block holds of the weights is in its registers.
BLOCK = Block(threads=448, registers=72)


@cache
def published_device() -> Device:
    """The device that the talk's five tests ran on."""
    return devices.load(str(read_toml(FILE)["published_device"]))


@dataclass(frozen=True)
class Layer:
    """A product: `rows` of weights, `k` long, times a batch."""

    name: str
    k: int
    rows: int


LAYERS = (
    Layer("R", 896, 2688),
    Layer("O1", 448, 448),
    Layer("O2", 448, 256),
    Layer("O3", 448, 448),
    Layer("O4", 448, 256),
)
RECURRENT = LAYERS[0]


@dataclass(frozen=True)
class BlockRows:
    """How the weights' rows are cut into blocks: so many of R, so many of an output layer.

    Raises `DescriptionError` for rows that tensor cores do not take, which come in eights.
    """

    recurrent_rows: int = 64
    output_rows: int = 64

    def __post_init__(self) -> None:
        for name in ("recurrent_rows", "output_rows"):
            rows = whole(f"BlockRows: {name}", getattr(self, name), 8, RECURRENT.rows)
            if rows % 8:
                raise DescriptionError(f"BlockRows: {name} is {rows}; it must be a multiple of 8")

    def rows(self, layer: Layer) -> int:
        """Rows of a block of a layer; its last block may have fewer."""
        return self.recurrent_rows if layer == RECURRENT else self.output_rows

    def blocks(self, layer: Layer) -> int:
        """Blocks of a layer."""
        return -(-layer.rows // self.rows(layer))

    @property
    def all_blocks(self) -> int:
        """Blocks that stay, of all layers."""
        return sum(map(self.blocks, LAYERS))


PUBLISHED_CUT = BlockRows(64, 64)  # 42 + 7 + 4 + 7 + 4 blocks
OWN_CUT = BlockRows(48, 64)  # ours: a block has the three gates of 16 units


@dataclass(frozen=True)
class StepCycle:
    """What runs between two barriers, or in one launch: layers, each for a batch of so many sequences."""

    layers: tuple[Layer, ...]
    sequences: int = BATCH

    def blocks(self, cut: BlockRows) -> list[Layer]:
        """The layer of each block, in the grid's order."""
        return [layer for layer in self.layers for _ in range(cut.blocks(layer))]


def cycles_of(way: Way, steps: int = STEPS) -> list[StepCycle]:
    """All cycles of so many steps of 40 sequences. Raises `DescriptionError` for an unknown way or steps."""
    if way not in WAYS:
        raise DescriptionError(f"way is {way!r}; it must be one of {', '.join(WAYS)}")
    if way in ("library", "batch"):
        whole("steps", steps, 1, MOST_STEPS)
        return [StepCycle((layer,), BATCH * BATCHES) for layer in LAYERS] * steps
    return in_flight(1, steps) * BATCHES if way == "persistent" else in_flight(BATCHES, steps)


def in_flight(batches: int, steps: int) -> list[StepCycle]:
    """Cycles of so many steps of 1 to 5 batches of 8, one behind the other in the pipeline.

    Batch j enters in cycle j, and again every five cycles. Raises `DescriptionError`.
    """
    depth = len(LAYERS)
    whole("batches in flight", batches, 1, depth)
    cycles = depth * (whole("steps", steps, 1, MOST_STEPS) - 1) + batches + depth - 1
    return [
        StepCycle(tuple(one for s, one in enumerate(LAYERS) if _has(c - s, batches, steps)))
        for c in range(cycles)
    ]


def _has(entered: int, batches: int, steps: int) -> bool:
    """Whether a batch entered the pipeline in that cycle."""
    return 0 <= entered < len(LAYERS) * steps and entered % len(LAYERS) < batches


def distinct_cycles(way: Way, steps: int = STEPS) -> Counter[StepCycle]:
    """How often each cycle comes."""
    return Counter(cycles_of(way, steps))


def pipeline_of(cycles: Sequence[StepCycle], cut: BlockRows = PUBLISHED_CUT, name: str = "cycle") -> Pipeline:
    """Cycles as kernels one after the other, "cycle 0" and on.

    Between two is a kernel boundary, or a barrier of the grid, of which costs say that it is one.
    """
    kernels = [Kernel(f"{name} {i}", Grid(len(cycle.blocks(cut))), BLOCK) for i, cycle in enumerate(cycles)]
    return Pipeline("wavernn-896", [Stage(kernel.name, kernel) for kernel in kernels])


Dtype = Literal["int8", "fp16"]
BYTES: Mapping[str, int] = {"int8": 1, "fp16": 2}
SECTION = "persistent"
TILE_K = 64
MOST_SHARING = 8  # blocks on one SM


@dataclass(frozen=True)
class StepCosts:
    """Times of the parts in ns; of R and of an output layer, each block with its SM to itself.

    `launch_ns` is from a kernel's last block to the next one's first, `barrier_ns` the same across a barrier
    of the grid. `*_ns` of a layer is a block's work for a batch of 8 with its weights at hand, `*_batch_ns`
    for all 40 sequences, `*_weights_ns` what loading its weights adds, `*_library_ns` cuBLASLt's product of
    40. `throughput_share`: the part of a block's work that two blocks on one SM must share; the rest is
    latency.
    """

    launch_ns: int
    barrier_ns: int
    recurrent_ns: int
    output_ns: int
    recurrent_batch_ns: int
    output_batch_ns: int
    recurrent_weights_ns: int
    output_weights_ns: int
    recurrent_library_ns: int
    output_library_ns: int
    throughput_share: float = 0.5
    source: str = ""

    def __post_init__(self) -> None:
        for item in fields(self):
            if item.name.endswith("_ns"):
                whole(f"StepCosts: {item.name}", getattr(self, item.name), 0, MOST_NS)
        if not 0 <= self.throughput_share <= 1:
            raise DescriptionError(
                f"StepCosts: throughput_share is {self.throughput_share}; it must be 0 to 1"
            )

    def block_ns(self, layer: Layer, way: Way) -> int:
        """One block's time in a cycle of a way."""
        kind = "recurrent" if layer == RECURRENT else "output"
        if way == "library":
            return int(getattr(self, f"{kind}_library_ns"))
        work = getattr(self, f"{kind}_batch_ns" if way == "batch" else f"{kind}_ns")
        loads = 0 if way in ("persistent", "both") else getattr(self, f"{kind}_weights_ns")
        return int(work + loads)

    def between_ns(self, way: Way) -> int:
        """From the end of a cycle to the start of the next."""
        return self.barrier_ns if way in ("persistent", "both") else self.launch_ns

    def total_ns(self, way: Way, steps: int) -> int:
        """All cycles of a way where each block has an SM to itself: the slowest layer of each, and what is
        between.
        """
        work = sum(
            count * max(self.block_ns(layer, way) for layer in cycle.layers)
            for cycle, count in distinct_cycles(way, steps).items()
        )
        return work + (len(cycles_of(way, steps)) - 1) * self.between_ns(way)

    @property
    def sharing(self) -> tuple[float, ...]:
        """Speeds of 1, 2, 3... blocks on one SM, as `CostModel` has them."""
        extra = self.throughput_share
        return tuple(1 / (1 + (count - 1) * extra) for count in range(1, MOST_SHARING + 1))

    def cost_model(
        self, cycles: Sequence[StepCycle], cut: BlockRows, way: Way, name: str = "cycle"
    ) -> CostModel:
        """Of `pipeline_of(cycles, cut, name)`: a barrier costs what a kernel boundary does, only less."""
        tile_ns = {
            f"{name} {i}": [self.block_ns(layer, way) for layer in cycle.blocks(cut)]
            for i, cycle in enumerate(cycles)
        }
        return CostModel(tile_ns, boundary_ns=self.between_ns(way), sharing=self.sharing)


def estimated_costs(device: Device, dtype: Dtype, cut: BlockRows = OWN_CUT) -> StepCosts:
    """The parts by a device's data sheet and constants; a device without constants takes the default's.

    Raises `DescriptionError` for another type.
    """
    if dtype not in BYTES:
        raise DescriptionError(f"dtype is {dtype!r}; it must be one of {', '.join(BYTES)}")
    known = costs_of(device.name)
    constants: dict[str, float] = {name: known.values[f"{SECTION}.{name}"] for name in _CONSTANTS}
    ghz = device.clock_hz / 1e9
    per_cycle = device.tensor_flops_per_s / 2 / device.sm_count / device.clock_hz * 2 / BYTES[dtype]
    rate = per_cycle * constants["tensor_share"]

    def shared(layer: Layer, batches: int = 1, of: BlockRows = cut) -> float:
        products = BATCH * of.rows(layer) * layer.k / rate
        return float(batches * (products + constants["reduce_cycles"]))

    def work(layer: Layer, batches: int = 1) -> int:
        return round((constants["latency_cycles"] + shared(layer, batches)) / ghz)

    def weights(layer: Layer) -> int:
        moved = cut.rows(layer) * layer.k * BYTES[dtype]
        return round(moved / constants["l2_bytes_per_cycle"] / ghz)

    def library(layer: Layer) -> int:
        blocks = -(-layer.k // TILE_K)
        return round((constants["library_cycles"] + blocks * constants["library_k_block_cycles"]) / ghz)

    output = LAYERS[1]
    # One law for every cut, so that cuts can be compared: that of a block of R as published.
    usual = shared(RECURRENT, of=PUBLISHED_CUT)
    return StepCosts(
        launch_ns=known.overheads["boundary_ns"],
        barrier_ns=round(constants["barrier_ns"]),
        recurrent_ns=work(RECURRENT),
        output_ns=work(output),
        recurrent_batch_ns=work(RECURRENT, BATCHES),
        output_batch_ns=work(output, BATCHES),
        recurrent_weights_ns=weights(RECURRENT),
        output_weights_ns=weights(output),
        recurrent_library_ns=library(RECURRENT),
        output_library_ns=library(output),
        throughput_share=usual / (constants["latency_cycles"] + usual),
        source=_source(device, known.defaults_in(SECTION, "overheads") != ()),
    )


def _source(device: Device, is_stand_in: bool) -> str:
    own = f"data sheet of the {device.name}, constants of [persistent], assumed and not measured"
    return own + (", which are the default device's" if is_stand_in else "")


_CONSTANTS = (
    "barrier_ns",
    "latency_cycles",
    "reduce_cycles",
    "tensor_share",
    "l2_bytes_per_cycle",
    "library_cycles",
    "library_k_block_cycles",
)


def simulated_ns(
    way: Way,
    device: Device,
    costs: StepCosts,
    cut: BlockRows = OWN_CUT,
    *,
    order: Order | None = None,
    steps: int = STEPS,
) -> int:
    """All steps by one way, from the first block to the last. `order`: in which blocks are issued to SMs."""
    counted = distinct_cycles(way, steps)
    work = sum(
        count * trace_of([cycle], way, device, costs, cut, order=order).makespan_ns
        for cycle, count in counted.items()
    )
    return work + (counted.total() - 1) * costs.between_ns(way)


def trace_of(
    cycles: Sequence[StepCycle],
    way: Way,
    device: Device,
    costs: StepCosts,
    cut: BlockRows = OWN_CUT,
    *,
    order: Order | None = None,
) -> Trace:
    """These cycles, one after the other, at most as many as a pipeline has stages."""
    pipeline = pipeline_of(cycles, cut)
    plan = StreamSync(order or RowMajor())
    return simulate(pipeline, plan, device, costs.cost_model(cycles, cut, way))


def first_cycles(way: Way, count: int = 12) -> list[StepCycle]:
    """The first cycles of a way, for a picture."""
    return cycles_of(way)[:count]


def five_tests(device: Device, dtype: Dtype, cut: BlockRows = OWN_CUT) -> dict[Way, int]:
    """The five tests' simulated times in ns, by costs that are estimated."""
    costs = estimated_costs(device, dtype, cut)
    return {way: simulated_ns(way, device, costs, cut) for way in WAYS}


def rotated(first: int) -> CustomOrder:
    """Blocks issued from the `first`-th on, those before it last."""

    def tiles(grid: Grid) -> list[tuple[int, int]]:
        every = list(grid)
        start = first % len(every)
        return every[start:] + every[:start]

    return CustomOrder(f"from-{first}", tiles)
