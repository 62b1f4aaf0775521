"""A decode step on the GPU: its buffers, its launch, and the report of a step that gave up.

Example: `DecodeLaunch(shape, addresses, layers=32, max_length=2048)` compiles the kernel once;
`enqueue(stream)` puts one step on a stream, also while a graph is captured from it; `check()` raises what a
step that gave up has written down.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from wavesim.errors import DeadlockError, DescriptionError, DeviceError
from wavesim_gpu.driver.compiler import Build
from wavesim_gpu.driver.device import query, require_cupy
from wavesim_gpu.driver.functions import Function, load_function
from wavesim_gpu.driver.kernel_launch import KernelLaunch, launch_extended
from wavesim_gpu.kernels.decode.shape import DecodeShape
from wavesim_gpu.kernels.decode.work_list import (
    ATTENTION,
    DOWN,
    GATE_UP,
    OUT,
    QKV,
    STAGES,
    WorkList,
    share_tiles,
)

SOURCE = Path(__file__).with_name("decode_step.cu")
LIMIT_NS = 2_000_000_000
LOG2_E = 1.4426950408889634
POINTERS = (
    *("weights", "norms", "biases", "head_norms", "rotary", "positions", "items", "first_items", "input"),
    *("tokens", "head_weight", "output", "words", "progress", "report", "stamps"),
)
STEP = np.dtype(
    [(name, "u8") for name in POINTERS]
    + [(name, "i4") for name in ("layers", "max_length", "vocabulary")]
    + [("norm_epsilon", "f4"), ("score_scale", "f4"), ("padding", "i4"), ("limit_ns", "u8")]
)
STAMPS = ("began", "ready", "multiplied", "weights_ns", "sums_ns", "stored")
ROLES = ("the math warps", "the producer warp", "an epilogue warp")
WORDS, SLOT, WEIGHTS, SUMS, CACHE_IS_FULL = range(1, 6)


@dataclass(frozen=True)
class StepAddresses:
    """Where a model's tensors are; 0 for what it has not. `layers`: for each the addresses of q, k, v, out,
    gate, up and down weights, then of its keys and values (batch, key heads, max_length, head size).
    """

    layers: tuple[tuple[int, ...], ...]
    norms: int
    rotary: int
    positions: int
    input: int
    output: int
    biases: int = 0
    head_norms: int = 0
    tokens: int = 0
    head_weight: int = 0


class DecodeLaunch:
    """A compiled step with its work list and buffers on the current GPU.

    `keys` is the number for which the work list is evened out; any number up to `max_length` is right. Raises
    `DeviceError` where the GPU cannot hold a block of the kernel on each SM.
    """

    def __init__(
        self,
        shape: DecodeShape,
        addresses: StepAddresses,
        *,
        max_length: int,
        keys: int = 512,
        vocabulary: int = 0,
        norm_epsilon: float = 1e-5,
        build: Build | None = None,
        limit_ns: int = LIMIT_NS,
    ) -> None:
        self.shape, self.build = shape, build or Build()
        self.cupy = cupy = require_cupy()
        device = query()
        self.blocks = device.sm_count
        self.list: WorkList = share_tiles(shape, device, keys, vocabulary)
        self.function: Function = load_function(
            SOURCE, "decode_step", self.build, shape.shared_bytes, shape.header()
        )
        self.launch = KernelLaunch(
            "decode_step", shape.threads, shape.shared_bytes, self.blocks, is_cooperative=True
        )
        if not self.function.blocks_per_sm(self.launch.threads, shape.shared_bytes):
            raise DeviceError(
                f"a decode step needs {self.launch.threads} threads and {shape.shared_bytes} bytes of shared "
                "memory on each SM; this GPU has less"
            )
        layers = len(addresses.layers)
        self._arrays = {
            "weights": cupy.asarray(np.array(addresses.layers, np.uint64)),
            "items": cupy.asarray(self.list.items),
            "first_items": cupy.asarray(self.list.first),
            "words": cupy.zeros(shape.replicas * shape.words["words_of_replica"], np.uint64),
            "progress": cupy.zeros(2, np.uint32),
            "report": cupy.zeros(8, np.uint32),
            "stamps": cupy.zeros(
                (self.blocks, layers * 5 + 1, len(STAMPS)) if self.build.is_recording else 1, np.uint64
            ),
        }
        record = np.zeros(1, STEP)[0]
        for name in POINTERS:
            record[name] = self._arrays[name].data.ptr if name in self._arrays else getattr(addresses, name)
        record["layers"], record["max_length"], record["vocabulary"] = layers, max_length, vocabulary
        record["norm_epsilon"], record["score_scale"] = norm_epsilon, shape.head_size**-0.5 * LOG2_E
        record["limit_ns"] = limit_ns
        self.record = record
        cupy.cuda.Device().synchronize()

    @property
    def stamps(self) -> Any:
        """Of a recording build, (blocks, layers * 5 + 1, 6): `STAMPS` in ns, of stages that a block has
        tiles of.
        """
        return self._arrays["stamps"].get()

    def enqueue(self, stream: Any) -> None:
        """One step, on CuPy's stream."""
        launch_extended(self.function.function, self.launch, (self.record,), stream)

    def check(self) -> None:
        """Raises for a step that gave up, after all that was enqueued; the next step begins afresh.

        `DescriptionError` where a cache was full, `DeadlockError` where a wait took too long.
        """
        gave_up, block, role, layer, stage, index, seen, awaited = (
            int(v) for v in self._arrays["report"].get()
        )
        if not gave_up:
            return
        self._arrays["report"][:] = 0
        self.cupy.cuda.Device().synchronize()
        if gave_up == CACHE_IS_FULL:
            raise DescriptionError(
                f"sequence {index} is at position {seen}; its cache holds {awaited}: make a longer cache"
            )
        awaits = {
            SLOT: "slot {} of its ring",
            WEIGHTS: "weights in slot {} of its ring",
            SUMS: "sums in buffer {}",
        }
        text = awaits.get(gave_up, self._word_text(index)).format(index)
        seconds = int(self.record["limit_ns"]) / 1e9
        where = f"{ROLES[role]} of block {block}, layer {layer}, {STAGES[stage]}"
        raise DeadlockError(
            detail=f"decode step: {where}, waited longer than {seconds:g} s for {text} (saw {seen}, awaited "
            f"{awaited}); is the GPU shared with another program?"
        )

    def _word_text(self, index: int) -> str:
        """Which tile stores a word, and which block computes that."""
        name = [name for name, first in self.shape.words.items() if first <= index][-1]
        stage, tile = self._source(name, index - self.shape.words[name])
        return f"tile {tile} of {STAGES[stage]}, which block {self.list.block_of(stage, tile)} computes"

    def _source(self, name: str, word: int) -> tuple[int, int]:
        shape = self.shape
        wide, rows, stage = {
            "after_down_words": (shape.hidden, shape.down_rows, DOWN),
            "after_out_words": (shape.hidden, shape.out_rows, OUT),
            "qkv_words": (shape.qkv_columns, shape.qkv_rows, QKV),
            "inner_words": (shape.inner, 8, GATE_UP),
        }.get(name, (shape.attention_columns, shape.head_size, ATTENTION))
        if stage != ATTENTION:
            return stage, 2 * word % wide // rows
        if name == "share_words":
            row, rest = divmod(word, shape.heads * shape.splits)
            head, split = divmod(rest, shape.splits)
        else:
            piece, column = divmod(2 * word, wide)
            row, split = divmod(piece, shape.splits)
            head = column // shape.head_size
        return stage, (row * shape.kv_heads + head // shape.heads_per_key) * shape.splits + split
