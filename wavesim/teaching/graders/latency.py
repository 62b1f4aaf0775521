"""Exercises of notebook 19: bytes in flight, loads of a warp, the roofline of two tiles, blocks on an SM."""

from typing import Any

from wavesim.sm.loads import LoadLoop, littles_share, simulated_share, warps_to_fill
from wavesim.teaching.exercises import Exercise, number, pair, require, whole
from wavesim.teaching.latency import (
    LAB_SM,
    SMALL_GPU,
    SMALL_SM_BYTES,
    SMALL_SM_THREADS,
    TILES,
)

FEW_WARPS, ENOUGH, MOST_LOADS, MOST_FLYING = 12, 0.95, 16, 48
NEEDED = warps_to_fill(LAB_SM)


def grade_warps(answer: Any) -> str:
    """The fewest warps with one load of 512 bytes each that fill the lab's SM."""
    warps, needed = whole(answer, 1, 64), warps_to_fill(LAB_SM)
    share = littles_share(LoadLoop(warps).in_flight_bytes, LAB_SM)
    require(warps >= needed, f"{warps} warps give {share:.0%} of the bandwidth.".replace("%", " %"))
    require(warps == needed, f"{warps} are enough; one fewer are too.")
    return "32 bytes × 640 cycles are 20,480 bytes in flight, 512 of them in each warp's load."


def grade_loads(answer: Any) -> str:
    """The fewest loads of each of twelve warps that fill it."""
    loads = whole(answer, 1, MOST_LOADS)
    shares = [littles_share(FEW_WARPS * count * 512, LAB_SM) for count in (loads - 1, loads)]
    require(
        shares[1] >= 1,
        f"{FEW_WARPS} warps × {loads} × 512 bytes are {shares[1]:.0%} of what has to be in flight.".replace(
            "%", " %"
        ),
    )
    require(shares[0] < 1, f"{loads} are enough, and one fewer would be.")
    return f"{FEW_WARPS} × {loads} loads are at least 40."


def grade_mix(answer: Any) -> str:
    """(warps, loads) that reach 95 %, simulated, with at most twelve warps and 48 loads in flight."""
    warps, loads = pair(answer, "warps, loads of each")
    loop = LoadLoop(whole(warps, 1, 64), whole(loads, 1, MOST_LOADS))
    flying = loop.warps * loop.loads
    require(loop.warps <= FEW_WARPS, f"{loop.warps} warps are more than {FEW_WARPS}.")
    require(flying <= MOST_FLYING, f"{flying} loads are in flight; {MOST_FLYING} are the most.")
    share = simulated_share(loop, LAB_SM)
    found = f"{share:.0%} of the bandwidth, simulated".replace("%", " %")
    late = " That would be enough, but a warp begins again only when its last load is there."
    require(share >= ENOUGH, f"{found}, with {flying} loads in flight.{late if flying >= NEEDED else ''}")
    return f"{found}, with {flying} loads in flight."


def grade_roofline(answer: Any) -> str:
    """GFLOP/s that tiles of 16 x 16 and of 32 x 32 reach at most."""
    for given, tile in zip(pair(answer, "GFLOP/s with 16 × 16, with 32 × 32"), TILES, strict=True):
        truth = SMALL_GPU.attainable(tile.intensity) / 1e9
        name = f"{tile.tile} × {tile.tile}"
        rate = number(given, "GFLOP/s")
        over = "The memory would allow more than the GPU computes. " if rate > 1000 else ""
        require(
            abs(rate - truth) <= 0.01 * truth,
            f"{rate:g} GFLOP/s with {name}? {over}A loaded float serves {tile.tile} multiply-adds, each two "
            "flops; an operand of each has to be loaded, 4 bytes apiece.",
        )
    return "4 flops per byte × 150 GB/s; 8 × 150 would be 1200, over the roof of 1000."


def grade_blocks(answer: Any) -> str:
    """Blocks per SM with tiles of 16 x 16 and of 32 x 32."""
    for given, tile in zip(pair(answer, "blocks with 16 × 16, with 32 × 32"), TILES, strict=True):
        truth = tile.blocks_per_sm(SMALL_SM_BYTES, SMALL_SM_THREADS)
        by_bytes = SMALL_SM_BYTES // tile.shared_bytes
        name = f"{tile.tile} × {tile.tile}"
        require(given != by_bytes, f"{given} with {name}: that is what shared memory allows. And threads?")
        require(
            whole(given, 0, by_bytes) == truth,
            f"{given} with {name}? A block has {tile.threads} threads and {tile.shared_bytes} bytes.",
        )
    pending = TILES[0].pending_loads(SMALL_SM_BYTES, SMALL_SM_THREADS)
    return f"2048 threads, by 256 or 1024; with two loads a thread {pending} are pending either way."


EXERCISES = (
    Exercise("19.1", "The fewest warps with a load each that fill 32 bytes × 640 cycles", grade_warps),
    Exercise("19.2", "The fewest loads of each of 12 warps that fill it", grade_loads),
    Exercise("19.3", "(warps, loads): 95 % with at most 12 warps and 48 loads in flight", grade_mix),
    Exercise("19.4", "GFLOP/s at most: (16 × 16 tiles, 32 × 32 tiles)", grade_roofline),
    Exercise("19.5", "Blocks per SM: (16 × 16 tiles, 32 × 32 tiles)", grade_blocks),
)
