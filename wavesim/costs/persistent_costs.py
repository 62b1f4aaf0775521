"""What a step of WaveRNN costs by its parts: a launch or a barrier, loading weights, a block's products.

Example: on an H200 a block of R that has its weights takes some 0.6 us for a batch of 8; launched anew it
loads them first. The parts come from a device's constants, some of them assumed, or from parts timed alone.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Literal

from wavesim.costs.cost_model import CostModel
from wavesim.costs.device_costs import costs_of
from wavesim.errors import DescriptionError
from wavesim.model.device import Device
from wavesim.safe_io.bounds import MOST_NS, whole
from wavesim.workloads.wavernn import (
    BATCH,
    BATCHES,
    LAYERS,
    OWN_CUT,
    PUBLISHED_CUT,
    RECURRENT,
    BlockRows,
    Layer,
    StepCycle,
    Way,
    cycles_of,
    distinct_cycles,
)

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
