"""WaveRNN-896 as a kernel that stays: five products a step, five batches of 8, one cycle per stage.

Example: R has 2,688 rows of 896 weights; in blocks of 64 rows it is 42 blocks, the four output layers are 22.
Pipelined, all 64 work in every cycle, each layer for another batch: 32 steps take 164 cycles. One batch after
the other they take 800, of which each uses one layer's blocks.
Source: Fan Yu, "Persistent CUDA programming and its applications", NVIDIA, December 2019 (in Chinese).
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal, get_args

from wavesim.errors import DescriptionError
from wavesim.model import device as devices
from wavesim.model.device import Device
from wavesim.model.kernel import Block, Grid, Kernel
from wavesim.model.pipeline import Pipeline
from wavesim.model.stage import Stage
from wavesim.safe_io.bounds import whole
from wavesim.safe_io.documents import read_toml

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
