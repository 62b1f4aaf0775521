"""What a decode step is compiled for: sizes of the model, batch, and where things are in memory.

Example: `DecodeShape(hidden=4096, inner=14336, heads=32, kv_heads=8, head_size=128).header()` is the text of
<generated.cuh> for Llama-3-8B; `ring_slots` is how many pieces of 16 KB the producer may run ahead by.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from wavesim.errors import DescriptionError
from wavesim.plan.megakernel import Placement

SHARED_BYTES = 232_448  # a block's most on the architecture that the kernel is written for
EPILOGUE_WARPS, TILE_ROWS, MOST_ITEMS = 3, 16, 320
SUM_BUFFERS = 2 * EPILOGUE_WARPS
ROW_PADDING, KEYS_OF_WARP = 32, 16  # bytes of padding per row of a slot, on average
BATCHES, HEAD_SIZES, MOST_HEADS_PER_KEY, LEAST_SLOTS = (1, 2, 4, 8), (64, 128), 8, 4
ALIGNMENT = 128
PARTS, ENOUGH_SLOTS = (1, 2, 4, 8), 6
LONG = 1024  # keys, from which more splits are worth what combining them costs
ROOMY_SLOTS, WIDE = 12, 4096  # slots worth narrower ones; columns from which weights are long in flight


@dataclass(frozen=True)
class DecodeShape:
    """One model, batch and way to cut its stages into tiles. Sizes are in elements, `splits` of the keys.

    Raises `DescriptionError` for what the kernel does not take, by name.
    """

    hidden: int
    inner: int
    heads: int
    kv_heads: int
    head_size: int
    batch: int = 1
    has_bias: bool = False
    has_head_norm: bool = False
    splits: int = 4
    qkv_rows: int = 16
    out_rows: int = 16
    down_rows: int = 16
    down_parts: int = 0  # of its input in shared memory at a time; 0 for as few as leave room for a ring
    replicas: int = 1
    math_warps: int = 12
    groups: int = 6
    slot_columns: int = 512
    in_flight: int = 32
    placement: Placement = "balanced"
    polls_all: bool = False

    def __post_init__(self) -> None:
        if self.head_size not in HEAD_SIZES:
            raise DescriptionError(
                f"head_size is {self.head_size}; a decode step takes {_listed(HEAD_SIZES)}"
            )
        if self.batch not in BATCHES:
            raise DescriptionError(f"batch is {self.batch}; a decode step takes {_listed(BATCHES)} sequences")
        if self.heads % self.kv_heads or self.heads_per_key > MOST_HEADS_PER_KEY:
            raise DescriptionError(
                f"{self.heads} query heads share {self.kv_heads} key heads; a decode step takes 1 to "
                f"{MOST_HEADS_PER_KEY} query heads for each"
            )
        for name in ("hidden", "inner"):
            if getattr(self, name) % 64:
                raise DescriptionError(f"{name} is {getattr(self, name)}; it must be a multiple of 64")
        if self.ring_slots < LEAST_SLOTS:
            raise DescriptionError(
                f"{self.batch} rows of {self.x_columns} values leave {self.ring_slots} slots of "
                f"{self.slot_bytes} bytes in shared memory; a step needs {LEAST_SLOTS}: use a smaller batch"
            )

    def tuned(self, keys: int = 512, **options: Any) -> "DecodeShape":
        """The same with the ring and splits that were fast where it was measured with about so many keys,
        each by itself (docs/decode.md): together they are not the fastest everywhere. `options` as given.
        """
        widths = (448,) if self.hidden % 448 == 0 else (512, 480, 448)
        candidates = [replace(self, slot_columns=width) for width in widths]
        roomy = next((shape for shape in candidates if shape.ring_slots >= ROOMY_SLOTS), candidates[0])
        in_flight = 4 if self.hidden < WIDE else 9
        splits = 2 if self.batch >= 8 else 8 if keys > LONG else 4
        fastest: dict[str, Any] = {"replicas": 4, "in_flight": in_flight, "splits": splits}
        if self.batch >= 4:
            fastest["groups"] = 3
        return replace(roomy, **(fastest | options))

    @property
    def heads_per_key(self) -> int:
        """Query heads that share a key head."""
        return self.heads // self.kv_heads

    @property
    def attention_columns(self) -> int:
        """Width of the attention's result."""
        return self.heads * self.head_size

    @property
    def qkv_columns(self) -> int:
        """Queries, keys and values of a token."""
        return (self.heads + 2 * self.kv_heads) * self.head_size

    @cached_property
    def parts(self) -> int:
        """Of the down product's input: several rows of it do not fit as a whole."""
        choices = [count for count in PARTS if self.inner % (64 * count) == 0]
        fits = (count for count in choices if self._slots_beside(count) >= ENOUGH_SLOTS)
        return self.down_parts or next(fits, choices[-1])

    @property
    def x_columns(self) -> int:
        """The widest input that is in shared memory at a time."""
        return self._widest(self.parts)

    def _widest(self, parts: int) -> int:
        return max(self.hidden, self.inner // parts, self.attention_columns)

    @property
    def slot_bytes(self) -> int:
        """Of a piece of the ring, with the rows' padding."""
        return TILE_ROWS * (2 * self.slot_columns + ROW_PADDING)

    @property
    def slot_keys(self) -> int:
        """Keys, and values, in a slot."""
        return self.slot_bytes // (4 * self.head_size + 16) // KEYS_OF_WARP * KEYS_OF_WARP

    @cached_property
    def _places(self) -> dict[str, int]:
        """Offsets in shared memory; `ring_at` comes last."""
        return self._places_beside(self.x_columns)

    def _places_beside(self, x_columns: int) -> dict[str, int]:
        parts = {
            "barriers": 8 * 2 * 32 + 8 * 2 * SUM_BUFFERS,
            "watch": 64,
            "items": 4 * MOST_ITEMS,
            "rotary": self.batch * self.head_size * 4,
            "squares": 2 * self.math_warps * self.batch * 4,
            "factors": 2 * self.batch * 4,
            "sums": SUM_BUFFERS * self.math_warps * TILE_ROWS * self.batch * 4,
            "totals": EPILOGUE_WARPS * TILE_ROWS * self.batch * 4,
            "queries": (self.heads_per_key + 2) * (self.head_size + 8) * 2,
            "softmax": self.math_warps * self.heads_per_key * 8,
            "x": max(
                self.batch * (x_columns + 32) * 2,
                self.math_warps * self.heads_per_key * (self.head_size + 8) * 4,
            ),
            "ring": 0,
        }
        places, at = {}, 0
        for name, size in parts.items():
            places[f"{name}_at"] = at
            at += -(-size // ALIGNMENT) * ALIGNMENT
        return places

    @property
    def threads(self) -> int:
        """Of a block: math warps, a producer warp, epilogue warps."""
        return 32 * (self.math_warps + 1 + EPILOGUE_WARPS)

    @property
    def ring_slots(self) -> int:
        """Pieces that the producer may run ahead by; each belongs to one group of warps."""
        return min(32, self._slots_beside(self.parts)) // self.groups * self.groups

    def _slots_beside(self, parts: int) -> int:
        ring_at = self._places_beside(self._widest(parts))["ring_at"]
        return (SHARED_BYTES - 128 - ring_at) // self.slot_bytes

    @property
    def shared_bytes(self) -> int:
        """Dynamic shared memory of a block."""
        return self._places["ring_at"] + self.ring_slots * self.slot_bytes

    @cached_property
    def words(self) -> dict[str, int]:
        """Offsets of the stages' results, in words, and `words_of_replica`, their number."""
        pairs = self.batch * self.hidden // 2
        parts = {
            "after_down_words": pairs,
            "after_out_words": pairs,
            "qkv_words": self.batch * self.qkv_columns // 2,
            "attention_words": self.batch * self.splits * self.attention_columns // 2,
            "share_words": self.batch * self.heads * self.splits,
            "inner_words": self.batch * self.inner // 2,
            "words_of_replica": 0,
        }
        places, at = {}, 0
        for name, size in parts.items():
            places[name] = at
            at += -(-size // 16) * 16
        return places

    def header(self) -> str:
        """The text of <generated.cuh>."""
        names = (
            "hidden",
            "inner",
            "heads",
            "kv_heads",
            "head_size",
            "batch",
            "splits",
            "qkv_rows",
            "out_rows",
        )
        numbers = {
            name: getattr(self, name)
            for name in (*names, "down_rows", "replicas", "math_warps", "groups", "slot_columns", "in_flight")
        }
        numbers |= {"slots": self.ring_slots, "slot_bytes": self.slot_bytes, "down_parts": self.parts}
        numbers |= {
            "epilogue_warps": EPILOGUE_WARPS,
            "slot_keys": self.slot_keys,
            "x_columns": self.x_columns,
            **self._places,
            **self.words,
        }
        flags = {"has_bias": self.has_bias, "polls_all": self.polls_all, "has_head_norm": self.has_head_norm}
        lines = [f"constexpr int {name} = {value};" for name, value in numbers.items()]
        lines += [f"constexpr bool {name} = {str(value).lower()};" for name, value in flags.items()]
        return "\n".join(["#pragma once", "namespace shape {", *lines, "}  // namespace shape", ""])


def _listed(values: tuple[int, ...]) -> str:
    return " or ".join(map(str, values))
