"""What a call keeps in every rank's memory, and what the words there stand for when a wait gives up.

Example: of a two-shot all-reduce of 2,048 x 6,144 over two ranks: `arrived`, a word per source and tile;
`finished`, a word per tile; `staging`, both ranks' tiles of an even and of an odd call; `out`.
"""

from typing import Any

from wavesim.errors import DeadlockError, Waiter
from wavesim_gpu.peers.layout import ERRORS, FACTS, MAX_WAITERS
from wavesim_gpu.peers.memory import PeerLayout, SharedMemory
from wavesim_gpu.peers.options import Way
from wavesim_gpu.peers.problem import SharedGemm

WORD, ELEMENT = 4, 2
HALVES = 2  # ranks whose copy engines take a half of the outputs to each other
QUICK_BYTES = 256 << 10  # of few outputs with their calls' numbers: nothing else is ever stored there


def parities_of(way: Way) -> int:
    """Places for tiles: a rank may be one call ahead, and then writes what the other reads no more. The copy
    engine's places are the same in all calls of a graph, so that it waits until they have been read.
    """
    return 1 if way == "copies" else 2


def layout_of(problem: SharedGemm, way: Way = "stores") -> PeerLayout:
    """The regions of a call. Tiles that blocks or the copy engine send lie in `outbox` first."""
    tiles, ranks, matrix = problem.tiles, problem.ranks, problem.m * problem.n * ELEMENT
    if way == "exchange":
        return exchange_layout(matrix, tiles)
    sizes = _words_of_calls(ranks)
    if problem.gathers:
        gathered = problem.gathered
        return PeerLayout(
            sizes | {"arrived": WORD * gathered.grid.size, "a": problem.m * problem.k * ELEMENT}
        )
    following, parities = problem.following, parities_of(way)
    units = problem.rows * (problem.tile_m // following.unit_rows) if following else tiles
    sizes |= {
        "arrived": WORD * ranks * tiles,
        "finished": WORD * units,
        "staging": parities * ranks * matrix,
        "out": matrix // (ranks if problem.collective.kind == "reduce-scatter" else 1),
    }
    if way in ("blocks", "copies"):
        sizes |= {"sent": WORD * ranks * tiles, "outbox": parities * matrix}
    if following:
        sizes["normed"] = matrix
    return PeerLayout(sizes)


def exchange_layout(matrix: int, tiles: int, ranks: int = 2) -> PeerLayout:
    """The regions of calls that exchange, or push, at most so many bytes of outputs and so many tiles or
    parts, a place for each other rank.

    Calls of different shapes may have them in turns: where an odd call's tiles lie does not depend on the
    shape, and all words hold numbers of calls.
    """
    others = ranks - 1
    words = {"arrived": others * WORD * tiles, "finished": WORD * tiles}
    places = {"staging": 2 * others * matrix, "sums": matrix, "quick": 2 * others * QUICK_BYTES}
    places |= {"half": matrix} if ranks == HALVES else {}
    return PeerLayout(_words_of_calls(ranks) | words | places)


def _words_of_calls(ranks: int) -> dict[str, int]:
    """Words that are where they are in every layout."""
    return {"done": WORD * ranks, "errors": ERRORS.itemsize, "calls": 2 * WORD}


def require_room(memory: SharedMemory, problem: SharedGemm, way: Way) -> None:
    """Raises `DescriptionError` for memory that was made for another call: kernels would store outside of
    it, on all ranks.
    """
    for name, size in layout_of(problem, way).sizes.items():
        memory.require_inside(name, size)


def failure(problem: Any, rank: int, found: Any, limit_s: float) -> DeadlockError:
    """What a rank's error record says: who waited for which tile of whom.

    `problem` is a `SharedGemm`, or of sums that are pushed a `PushedSums`.
    """
    found = found.view(ERRORS)[0]
    count = min(int(found["waiter_count"]), MAX_WAITERS)
    waiters = tuple(_waiter(problem, rank, row) for row in found["waiters"][:count])
    by = int(found["aborted"]) - 1
    if any(waiter.semaphore.startswith("alone") for waiter in waiters):
        return DeadlockError(
            (),
            detail=f"rank {by} ran two calls that share a workspace at the same time, as two graphs "
            "in flight do; their outputs are not to be used. Start again, and replay graphs one by one",
        )
    return DeadlockError(
        waiters,
        detail=f"rank {by} gave up first, after {limit_s:g} s. A rank has ended, or came later than "
        "that; the outputs that are not there hold NaN. Make the call's memory anew on all ranks",
    )


def _waiter(problem: Any, rank: int, row: Any) -> Waiter:
    fact, unit, source = FACTS[row["fact"]], int(row["unit"]), int(row["source"])
    if fact == "arrived" and source < 0 and problem.following:
        fact = "finished"  # what the product behind a norm waits for
    tile, owner = _place(problem, fact, unit)
    return Waiter(
        stage=f"rank {rank}",
        tile=tile,
        sm=int(row["sm"]),
        slot=-1,
        semaphore=f"{fact}[{unit}] of rank {source if source >= 0 else owner}",
        seen=int(row["seen"]),
        awaited=int(row["awaited"]),
    )


def _place(problem: Any, fact: str, unit: int) -> tuple[tuple[int, int, int], int]:
    """The tile, or part of a row of tiles, that a word tells of, and the rank that posts it."""
    if problem.gathers:
        tile_y, tile_x = divmod(unit, problem.gathered.grid.x)
        return (tile_x, tile_y, 0), tile_y // (problem.rows // problem.ranks)
    if problem.following and fact == "finished":
        tile_y, part = divmod(unit, problem.tile_m // problem.following.unit_rows)
        return (part, tile_y, 0), problem.owner(0, tile_y)
    tile_y, tile_x = divmod(unit, problem.columns)
    return (tile_x, tile_y, 0), problem.owner(tile_x, tile_y)
