"""The ways in which we take a product across GPUs, each in the tiles and on the SMs that are tried for it.

Example: of an all-reduce after 2,048 rows "stores" has three tiles, and so have "stores:8" and "stores:16",
where 8 and 16 SMs add; of each way the fastest is compared with the libraries, which choose theirs too.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from wavesim.work.collective import Collective
from wavesim.workloads.tried_tiles import split_of, tiles_tried
from wavesim_gpu.peers.options import EXCHANGING, CallOptions, options_named
from wavesim_gpu.peers.problem import SharedGemm, in_halves

DTYPE = "bf16"  # PyTorch's symmetric memory does not take fp16
LIMIT_S = 5.0  # of a wait
COPIED_CHUNKS = 8
WAVE = 132  # tiles: of the other rank's, before they take turns with own ones
ONE_SHOT_ROWS = 1024  # from here on a few SMs that add everything only lose
TWO_SHOT, ONE_SHOT = Collective("all-reduce"), Collective("all-reduce", "one-shot")


@dataclass(frozen=True)
class Variant:
    """A product in a tile, and how it is called."""

    problem: SharedGemm
    options: CallOptions

    @property
    def words(self) -> str:
        """For results: its tile, splits of K and SMs that communicate."""
        entry = self.problem
        sms = 0 if self.options.way == "exchange" else self.options.adding_sms(entry)
        beside = f"{self.options.copies} copies" if entry.gathers else f"{sms} SMs add"
        return f"{entry.tile_m}x{entry.tile_n}, K in {entry.split_k}, {beside}"


def problems_of(size: tuple[int, int, int], collective: Collective, ranks: int = 2) -> Iterator[SharedGemm]:
    """The product of (m, k, n) in each tile tried, K split where tiles leave SMs idle."""
    m, k, n = size
    for tile_m, tile_n in tiles_tried(m):
        if collective.kind != "all-reduce" and m % (ranks * tile_m):
            continue
        split_k = split_of((m, n, k), (tile_m, tile_n))
        yield SharedGemm(m, n, k, collective, ranks, DTYPE, tile_m, tile_n, split_k)


def problem_of(size: tuple[int, int, int], collective: Collective, ranks: int = 2) -> SharedGemm:
    """In the first of these tiles."""
    return next(problems_of(size, collective, ranks))


def variants_of(size: tuple[int, int, int], collective: Collective, ranks: int) -> dict[str, list[Variant]]:
    """By the names that the simulator gives the ways, where it has them."""
    problems = list(problems_of(size, collective, ranks))
    if collective.kind == "all-gather":
        by_blocks = CallOptions(send_blocks=8, limit_s=LIMIT_S)
        return {"blocks:8": [Variant(entry, by_blocks) for entry in problems]} | {
            name: _named(name, problems) for name in ("copies:1", "copies:2")
        }
    result = {name: _named(name, problems) for name in ("stores", "stores:8", "stores:16")}
    halves = [in_halves(entry) for entry in problems if entry.rows >= ranks == EXCHANGING]
    result |= {name: _named(name, halves) for name in ("exchange", f"exchange:{WAVE}") if halves}
    if collective.kind != "all-reduce":
        return result
    one_shot = list(problems_of(size, ONE_SHOT, ranks))
    shared = ("stores", "stores:8") if size[0] < ONE_SHOT_ROWS else ("stores",)
    result |= {f"{name} one-shot": _named(name, one_shot) for name in shared}
    result["blocks:16"] = [Variant(problems[0], CallOptions("blocks", send_blocks=8, limit_s=LIMIT_S))]
    chunked = replace(problems[0], chunk_rows=-(-problems[0].rows // COPIED_CHUNKS))
    result["copies:8"] = [Variant(chunked, CallOptions("copies", limit_s=LIMIT_S))]
    return result


def _named(name: str, problems: Sequence[SharedGemm]) -> list[Variant]:
    return [Variant(entry, options_named(name, LIMIT_S)) for entry in problems]
