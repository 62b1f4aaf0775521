"""WaveRNN-896 on the GPU at hand: buffers, how its steps are launched, the check of what they wrote.

Example: `Wavernn("int8").run("both")` does 32 steps of five batches of 8 in one launch whose blocks keep
their weights; "batch" launches 160 kernels, a product each, for all 40 sequences at once.
"""

from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from wavesim.errors import DeadlockError, DescriptionError, DeviceError
from wavesim_gpu.driver.compiler import Build
from wavesim_gpu.driver.device import query, require_cupy
from wavesim_gpu.driver.functions import Function, load_function
from wavesim_gpu.driver.kernel_launch import KernelLaunch, launch_extended
from wavesim_gpu.persistent.reference import worst_errors
from wavesim_gpu.persistent.weights import (
    BATCH,
    BATCHES,
    CLASSES,
    DTYPES,
    HALF,
    HIDDEN,
    STAGES,
    WARPS,
    first_state,
    made_up_weights,
)

SOURCE = Path(__file__).with_name("wavernn.cu")
BLOCKS_BEFORE = (0, 56, 63, 67, 74, 78)  # of each stage, and all
THREADS, LIMIT_NS = 32 * WARPS, 1_000_000_000
TYPES = {"fp16": "Fp16", "int8": "Int8"}
EMPTY_BYTE = {"fp16": 0xFF, "int8": 0x80}  # `empty` in element.cuh
MODEL = np.dtype(
    [
        ("weights", "u8"),
        ("state", "u8"),
        ("inner", "u8", 2),
        ("logits", "u8", 2),
        ("gate_scale", "f4"),
        ("inner_scale", "f4"),
    ]
)
CYCLES = np.dtype([(name, "i4") for name in ("first", "end", "items", "is_pipelined", "block", "padding")])
PROGRESS = np.dtype([("arrived", "u8"), ("gave_up", "u8"), ("limit_ns", "u8")])


@dataclass(frozen=True)
class Launched:
    """One launch: cycles `first` to `end`, `blocks` from number `block` on, `groups` batches an item.

    `items` are those of the pipeline, as many as the model's steps have where it is None.
    """

    first: int
    end: int
    is_pipelined: bool
    between: str = "launches"
    groups: int = 1
    block: int = 0
    blocks: int = BLOCKS_BEFORE[-1]
    items: int | None = None

    @property
    def is_persistent(self) -> bool:
        """Whether its blocks wait for each other, so that all must be resident."""
        return self.between != "launches"

    def expression(self, dtype: str) -> str:
        """The template instance."""
        return f"wavernn<{TYPES[dtype]}, {self.groups}, Between::{self.between}>"


def ways_of(steps: int) -> dict[str, list[Launched]]:
    """The launches of our own kernels' four tests, and of the pipeline that waits for words, by name."""
    items = steps * BATCHES
    all_cycles = items + STAGES - 1
    return {
        "batch": [of_stage(cycle) for cycle in range(steps * STAGES)],
        "persistent": [Launched(0, items * STAGES, is_pipelined=False, between="barrier")],
        "pipeline": [Launched(cycle, cycle + 1, is_pipelined=True) for cycle in range(all_cycles)],
        "both": [Launched(0, all_cycles, is_pipelined=True, between="barrier")],
        "words": [Launched(0, all_cycles, is_pipelined=True, between="words")],
    }


def of_stage(cycle: int) -> Launched:
    """One product for all 40 sequences: the blocks of its stage alone."""
    stage = cycle % STAGES
    first, end = BLOCKS_BEFORE[stage : stage + 2]
    return Launched(cycle, cycle + 1, is_pipelined=False, groups=BATCHES, block=first, blocks=end - first)


def output_shapes(dtype: str, steps: int) -> dict[str, tuple[tuple[int, ...], Any]]:
    """Shape and type of all that is written, by name; `state` has the first one in front."""
    shape, kind = (steps, BATCHES, BATCH), DTYPES[dtype]
    sums = np.int32 if dtype == "int8" else np.float32
    return {
        "state": ((steps + 1, BATCHES, BATCH, HIDDEN), kind),
        **{f"inner{side}": ((*shape, HALF), kind) for side in (0, 1)},
        **{f"logits{side}": ((*shape, CLASSES), sums) for side in (0, 1)},
    }


class Wavernn:
    """The model's weights and all that its steps write, on the current GPU.

    Raises `DescriptionError` for a type or a number of steps that cannot be, `DeviceError` without a GPU or
    with one that has fewer SMs than the kernel has blocks.
    """

    def __init__(self, dtype: str, steps: int = 32, seed: int = 0) -> None:
        if dtype not in DTYPES:
            raise DescriptionError(f"dtype is {dtype!r}; it must be {' or '.join(map(repr, DTYPES))}")
        if not 1 <= steps <= 4096:
            raise DescriptionError(f"steps is {steps}; it must be from 1 to 4096")
        self.dtype, self.steps = dtype, steps
        self.weights = made_up_weights(dtype, seed)
        self.cupy = cupy = require_cupy()
        if query().sm_count < BLOCKS_BEFORE[-1]:
            raise DeviceError(
                f"the GPU has {query().sm_count} SMs; WaveRNN's {BLOCKS_BEFORE[-1]} blocks stay on one each. "
                "Use a larger GPU, or all of it"
            )
        self.stream = cupy.cuda.Stream(non_blocking=True)
        self._packed = cupy.asarray(self.weights.packed())
        shapes = output_shapes(dtype, steps)
        sizes = {name: prod(shape) * np.dtype(kind).itemsize for name, (shape, kind) in shapes.items()}
        # One piece of memory, so that all of it is emptied at once; the first state comes first.
        memory, self.outputs = cupy.empty(sum(sizes.values()), np.uint8), dict[str, Any]()
        at = 0
        for name, (shape, kind) in shapes.items():
            self.outputs[name] = memory[at : at + sizes[name]].view(kind).reshape(shape)
            at += sizes[name]
        self.outputs["state"][0] = cupy.asarray(first_state(dtype, seed))
        self._written = memory[self.outputs["state"][0].nbytes :]
        self._progress = cupy.zeros(2, np.uint32)
        cupy.cuda.Device().synchronize()

    def clear(self) -> None:
        """Empties what the steps write, as a run that waits for words needs it; on the stream."""
        self._written.data.memset_async(EMPTY_BYTE[self.dtype], self._written.nbytes, self.stream)

    def enqueue(self, launches: list[Launched]) -> None:
        """The launches on the stream, behind what has to be reset before them."""
        between = launches[0].between
        if between == "words":
            self.clear()
        if between == "barrier":
            self._progress[:1].data.memset_async(0, 4, self.stream)
        for launch in launches:
            self.launch(launch)

    def run(self, way: str) -> None:
        """All steps by one of `ways_of`, until they are done. Raises `DeadlockError` as `check` does."""
        self.clear()
        self.enqueue(ways_of(self.steps)[way])
        self.check(way)

    def check(self, way: str) -> None:
        """Waits for the stream. Raises `DeadlockError` where a wait took longer than a second."""
        self.stream.synchronize()
        if int(self._progress[1]):
            self.set_progress(0)
            raise DeadlockError(
                detail=f"WaveRNN's {way}: a block waited longer than {LIMIT_NS / 1e9:g} s for others; is the "
                "GPU shared with another program?"
            )

    def set_progress(self, arrived: int) -> None:
        """Nobody has given up, so many blocks have arrived at barriers; there before the stream goes on."""
        self._progress[:] = self.cupy.asarray([arrived, 0], dtype=np.uint32)
        self.cupy.cuda.Device().synchronize()

    def launch(self, launched: Launched) -> None:
        """One launch on the stream, with nothing reset before it."""
        shape = KernelLaunch(
            launched.expression(self.dtype),
            THREADS,
            0,
            launched.blocks,
            is_cooperative=launched.is_persistent,
        )
        arguments = self.record(), _cycles(launched, self.steps), self.progress_record()
        launch_extended(self.function(launched).function, shape, arguments, self.stream)

    def errors(self) -> dict[str, float]:
        """Of what the last run wrote, against fp32 or int32 from what each step had read."""
        return worst_errors(self.cupy, self.weights, self.outputs)

    def function(self, launch: Launched) -> Function:
        """The kernel of a launch, compiled once."""
        return load_function(SOURCE, launch.expression(self.dtype), Build())

    def record(self) -> Any:
        """The kernel's `Model`."""
        record = np.zeros(1, MODEL)[0]
        record["weights"], record["state"] = self._packed.data.ptr, self.outputs["state"].data.ptr
        for name in ("inner", "logits"):
            record[name] = [self.outputs[f"{name}{side}"].data.ptr for side in (0, 1)]
        record["gate_scale"], record["inner_scale"] = self.weights.gate_scale, self.weights.inner_scale
        return record

    def progress_record(self) -> Any:
        """The kernel's `Progress`."""
        record = np.zeros(1, PROGRESS)[0]
        first = self._progress.data.ptr
        record["arrived"], record["gave_up"], record["limit_ns"] = first, first + 4, LIMIT_NS
        return record


def _cycles(launched: Launched, steps: int) -> Any:
    record = np.zeros(1, CYCLES)[0]
    items = steps * BATCHES if launched.items is None else launched.items
    record["first"], record["end"], record["items"] = launched.first, launched.end, items
    record["is_pipelined"], record["block"] = launched.is_pipelined, launched.block
    return record
