"""What blind runs measure: written down, and split into development and test, before anything of it ran.

Example: "hopper-per-tile gpt3-mlp 128x256 M=1408" is one pair of products on one family of kernels. It is
measured in two tile orders, each under stream sync, row and tile semaphores, with dependent launch and as
Stream-K. The hash of that name says which split it is in. Sizes are mostly off the round numbers.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from wavesim.model.dependency import gemm_rows
from wavesim.model.kernel import Gemm
from wavesim.model.pipeline import Pipeline
from wavesim.model.stage import Stage
from wavesim.workloads.catalogue import Tile, workload
from wavesim.workloads.gpt3 import gemm_block
from wavesim.workloads.hopper import BLOCKS, TILE_K

ORDERS = ("row", "grouped:4")
SEMAPHORES = ("row", "tile")
BASELINE = "stream"
# Four blocks of 128 threads share an SM, so the compiler keeps to this; `gemm_block` would guess more.
SMALL_TILE, SMALL_TILE_REGISTERS = (64, 64), 128


@dataclass(frozen=True)
class BlindSize:
    """A pair of products on a family of kernels: `tiles` and `split_k` of the first and of the second.

    Every order of `orders` is a case: stream sync and all of `plans`, measured in turns.
    """

    kernels: str
    workload: str
    tokens: int
    tiles: tuple[Tile, Tile]
    split_k: tuple[int, int] = (1, 1)
    plans: tuple[str, ...] = SEMAPHORES
    orders: tuple[str, ...] = ORDERS

    @property
    def name(self) -> str:
        """What it is called in reports; its hash decides the split."""
        first, second = (f"{m}x{n}" for m, n in self.tiles)
        tile = first if first == second else f"{first}+{second}"
        split = "" if self.split_k == (1, 1) else f" K/{self.split_k[0]}+{self.split_k[1]}"
        return f"{self.kernels} {self.workload} {tile}{split} M={self.tokens}"

    @property
    def stem(self) -> str:
        """The start of its files' names."""
        return self.name.replace(" ", "_").replace("M=", "m").replace("K/", "k")

    @property
    def set_name(self) -> str:
        """The set that its semaphores' predictions are scored in."""
        family = self.kernels.partition("-")[0]
        if self.kernels == "hopper":
            return "hopper-persistent"
        if self.split_k != (1, 1):
            return f"{family}-split-k"
        if self.tiles[0] != self.tiles[1]:
            return f"{family}-unequal"
        per_sm = {(128, 128): 2, SMALL_TILE: 4}.get(self.tiles[0], 1) if family == "portable" else 1
        return f"{family}-{per_sm}-block{'s' if per_sm > 1 else ''}"

    def pipeline(self) -> Pipeline:
        """The two stages as the kernels compute them."""
        plain = workload(self.workload, self.tokens, self.tiles[0])
        first, second = (
            Stage(stage.name, self._cut(stage.gemm, tile, split))
            for stage, tile, split in zip(plain.stages, self.tiles, self.split_k, strict=True)
        )
        parameters = {**plain.parameters, "kernels": self.kernels, "judged_size": self.name}
        return Pipeline(self.workload, [first, second], [gemm_rows(first, second)], parameters)

    def _cut(self, gemm: Gemm, tile: Tile, split: int) -> Gemm:
        """The product in these tiles and slices, with the blocks of the family's kernels."""
        block, tile_k = BLOCKS.get(tile), TILE_K
        if self.kernels == "portable":
            block, tile_k = gemm_block(tile), gemm.tile_k
            if tile == SMALL_TILE:
                block = replace(block, registers=SMALL_TILE_REGISTERS)
        assert block is not None, f"no Hopper kernel is described for {tile}"
        return replace(gemm, tile_m=tile[0], tile_n=tile[1], tile_k=tile_k, split_k=split, block=block)


OFF_ROUND = (200, 384, 640, 900, 1100, 1408, 1800, 2300)
WIDE, TALL, SQUARE, MIDDLE = (128, 256), (256, 128), (128, 128), (192, 192)
RIVALS = (*SEMAPHORES, "pdl", "stream-k")


def all_sizes() -> tuple[BlindSize, ...]:
    """All of them; each in two orders."""
    return (*_portable(), *_hopper())


def _portable() -> Iterator[BlindSize]:
    """One, two and four blocks per SM; unequal tiles; split-K."""
    equal: tuple[tuple[Tile, tuple[int, ...]], ...] = (
        (WIDE, OFF_ROUND),
        (TALL, (384, 900, 1408, 2300)),
        (SQUARE, OFF_ROUND),
        (SMALL_TILE, (200, 300, 384, 520, 640)),
    )
    unequal: tuple[tuple[tuple[Tile, Tile], tuple[int, ...]], ...] = (
        ((WIDE, SQUARE), (640, 1100, 1800)),
        ((SQUARE, WIDE), (640, 1408)),
        ((TALL, WIDE), (900, 1800)),
        ((WIDE, TALL), (1408,)),
    )
    for tiles, sizes in (*(((tile, tile), sizes) for tile, sizes in equal), *unequal):
        yield from (BlindSize("portable", "gpt3-mlp", tokens, tiles) for tokens in sizes)
    for tile, split, tokens in (
        (WIDE, (2, 1), 640),
        (WIDE, (1, 2), 640),
        (WIDE, (2, 2), 384),
        (WIDE, (3, 3), 200),
        (WIDE, (3, 2), 384),
        (WIDE, (4, 4), 200),
        (SQUARE, (2, 2), 384),
        (SQUARE, (2, 1), 900),
        (SQUARE, (3, 1), 640),
        (SQUARE, (4, 4), 200),
    ):
        yield BlindSize("portable", "gpt3-mlp", tokens, (tile, tile), split)


def _hopper() -> Iterator[BlindSize]:
    """A block per tile, one per SM; GPT-3 and LLaMA; persistent kernels at a few sizes."""
    per_tile = "hopper-per-tile"
    for name in ("gpt3-mlp", "llama-mlp"):
        yield from (BlindSize(per_tile, name, tokens, (WIDE, WIDE), plans=RIVALS) for tokens in OFF_ROUND)
    for tile, sizes in ((TALL, (640, 1408, 2300)), (MIDDLE, (384, 900, 1800))):
        yield from (BlindSize(per_tile, "gpt3-mlp", tokens, (tile, tile)) for tokens in sizes)
    for name, tiles, tokens in (
        ("gpt3-mlp", (WIDE, TALL), 900),
        ("gpt3-mlp", (WIDE, TALL), 1800),
        ("gpt3-mlp", (TALL, WIDE), 1408),
        ("gpt3-mlp", (WIDE, MIDDLE), 1100),
        ("llama-mlp", (WIDE, TALL), 1408),
    ):
        yield BlindSize(per_tile, name, tokens, tiles)
    for name, split, tokens in (
        ("gpt3-mlp", (2, 1), 640),
        ("gpt3-mlp", (2, 2), 384),
        ("gpt3-mlp", (1, 2), 384),
        ("gpt3-mlp", (3, 2), 200),
        ("gpt3-mlp", (4, 4), 200),
        ("llama-mlp", (2, 2), 640),
    ):
        yield BlindSize(per_tile, name, tokens, (WIDE, WIDE), split)
    for name, tokens in (("gpt3-mlp", 640), ("gpt3-mlp", 1408), ("llama-mlp", 900), ("llama-mlp", 1800)):
        yield BlindSize("hopper", name, tokens, (WIDE, WIDE))
