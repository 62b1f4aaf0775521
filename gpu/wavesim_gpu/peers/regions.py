"""What a call keeps in every rank's memory, and what the words there stand for when a wait gives up.

Example: of a two-shot all-reduce of 2,048 x 6,144 over two ranks: `arrived`, a word per source and tile;
`finished`, a word per tile; `staging`, both ranks' tiles of an even and of an odd call; `out`.
"""

from typing import Any

from wavesim.errors import DeadlockError, Waiter
from wavesim_gpu.peers.layout import ERRORS, FACTS, MAX_WAITERS
from wavesim_gpu.peers.memory import PeerLayout
from wavesim_gpu.peers.problem import SharedGemm

WORD, ELEMENT = 4, 2
PARITIES = 2  # a rank may be one call ahead: it writes what the other reads no more


def layout_of(problem: SharedGemm, *, unit_rows: int = 0, by_blocks: bool = False) -> PeerLayout:
    """The regions of a call.

    With `unit_rows` rows of a norm's unit, there is room for its outputs too; `by_blocks`: tiles that
    communication blocks send lie in `outbox` first.
    """
    tiles, ranks, matrix = problem.tiles, problem.ranks, problem.m * problem.n * ELEMENT
    sizes = {"done": WORD * ranks, "errors": ERRORS.itemsize, "calls": 2 * WORD}
    if problem.gathers:
        gathered = problem.gathered
        return PeerLayout(
            sizes | {"arrived": WORD * gathered.grid.size, "a": problem.m * problem.k * ELEMENT}
        )
    units = problem.rows * (problem.tile_m // unit_rows) if unit_rows else tiles
    sizes |= {
        "arrived": WORD * ranks * tiles,
        "finished": WORD * units,
        "staging": PARITIES * ranks * matrix,
        "out": matrix // (ranks if problem.collective.kind == "reduce-scatter" else 1),
    }
    if by_blocks:
        sizes |= {"sent": WORD * ranks * tiles, "outbox": PARITIES * matrix}
    if unit_rows:
        sizes["normed"] = matrix
    return PeerLayout(sizes)


def failure(rank: int, found: Any, columns: int, limit_s: float) -> DeadlockError:
    """What a rank's error record says: who waited for which tile of whom."""
    found = found.view(ERRORS)[0]
    count = min(int(found["waiter_count"]), MAX_WAITERS)
    waiters = tuple(_waiter(rank, row, columns) for row in found["waiters"][:count])
    by = int(found["aborted"]) - 1
    return DeadlockError(
        waiters,
        detail=f"rank {by} gave up first, after {limit_s:g} s. A rank has ended, or came later than "
        "that; the outputs that are not there hold NaN. Make the call's memory anew on all ranks",
    )


def _waiter(rank: int, row: Any, columns: int) -> Waiter:
    fact, unit, source = FACTS[row["fact"]], int(row["unit"]), int(row["source"])
    of = f" of rank {source}" if source >= 0 else ""
    return Waiter(
        stage=f"rank {rank}",
        tile=(unit % columns, unit // columns, 0),
        sm=int(row["sm"]),
        slot=-1,
        semaphore=f"{fact}[{unit}]{of}",
        seen=int(row["seen"]),
        awaited=int(row["awaited"]),
    )
