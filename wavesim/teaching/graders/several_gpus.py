"""Exercises of notebook 14: bytes that cross, SMs that fill a link, what can be hidden, and how."""

from typing import TYPE_CHECKING, Any

from wavesim.errors import DescriptionError
from wavesim.sim.peers.two_gpu_tables import measured_tables
from wavesim.sim.peers.way import parse_way
from wavesim.teaching.exercises import Exercise, number, pair, require, whole
from wavesim.teaching.several_gpus import COLUMNS, link, simulated

if TYPE_CHECKING:
    from wavesim.model.link import Access

ROWS = 2_048
SHARE = 0.85
MOST_US = 490


def grade_bytes(answer: Any) -> str:
    """MB that leave a GPU in a two-shot all-reduce over two and over eight GPUs."""
    two, eight = pair(answer, "MB that leave a GPU of two, of eight")
    size = 2 * ROWS * COLUMNS / 1e6
    two, eight = number(two, "MB"), number(eight, "MB")
    require(
        abs(two / size - 1) < 0.03,
        f"{two:g} MB of two GPUs? Each sends the half that the other adds, and then the half that it added.",
    )
    require(
        abs(eight / (size * 7 / 4) - 1) < 0.03,
        f"{eight:g} MB of eight GPUs? A GPU keeps an eighth, sends seven, and sends its own sums to seven.",
    )
    return "Twice (n - 1) / n of the matrix: from two GPUs to eight not even twice as much."


def grade_fill(answer: Any) -> str:
    """The least measured number of blocks that write, and that read, 85 % of what the link carries."""
    writing, reading = pair(answer, "blocks that write, blocks that read")
    asked: tuple[tuple[Any, Access, str], ...] = ((writing, "write", "writing"), (reading, "read", "reading"))
    for blocks, access, words in asked:
        counts = sorted(link().rates(access))
        enough = next(one for one in counts if link().rates(access)[one] >= SHARE * link().most(access))
        count = whole(blocks, 1, 132)
        require(
            count >= enough,
            f"{count} {words} blocks carry less than 85 % of the most that was measured for {words}.",
        )
        require(count == enough, f"{count} {words} blocks are enough; the table has fewer that are too.")
    return "A store needs no answer, so that an SM has more of them on their way than loads."


def grade_limit(answer: Any) -> str:
    """What hiding all of the all-reduce would gain at 2,048 rows, from the measured table."""
    given = number(answer, "times")
    row = next(one for one in measured_tables()["sequence"] if one["m"] == ROWS)
    both, best = row["gemm"] + row["all_reduce"], row["sequence"] / row["gemm"]
    require(
        abs(given - row["sequence"] / row["all_reduce"]) > 0.03,
        "then the GEMM would be hidden behind the all-reduce, which is the shorter of the two.",
    )
    require(abs(given - row["sequence"] / both) > 0.03, "that is nothing hidden at all.")
    require(
        abs(given - best) < 0.03,
        f"{given:g}? At best only the longer of the two takes time; the table has what both take in a row.",
    )
    return "Nobody gets there by chunks: each has a last wave, and NCCL's blocks hold SMs."


def grade_way(answer: Any) -> str:
    """A way that takes 2,048 rows in 490 us at most, simulated."""
    require(isinstance(answer, str), f"{answer!r} is not a way; write a text such as 'stores:8'.")
    try:
        way = parse_way(answer.strip())
        found = simulated(way.word, ROWS)
    except DescriptionError as error:
        require(False, f"{error}.")
        raise
    taken = found.times[-1].time_ns / 1e3
    require(
        taken <= MOST_US,
        f"{way.word}: {taken:,.0f} µs, where {MOST_US} are possible. Does an SM that only communicates cost "
        "a whole wave of tiles?",
    )
    return f"{way.word}: {taken:,.0f} µs, {found.speedup(found.times[-1]):.2f} times as fast, simulated."


EXERCISES = (
    Exercise("14.1", "What hiding the whole all-reduce would gain at 2,048 rows", grade_limit),
    Exercise("14.2", "MB that leave a GPU in an all-reduce over two and over eight", grade_bytes),
    Exercise("14.3", "Blocks that fill the link by writing, and by reading", grade_fill),
    Exercise("14.4", "A way that takes 2,048 rows in 490 µs at most, simulated", grade_way),
)
