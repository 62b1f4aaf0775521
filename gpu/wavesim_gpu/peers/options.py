"""How a call is made, beyond what it computes, and how a GPU's SMs are dealt out for it.

Example: `CallOptions("blocks")` of a two-shot all-reduce on 132 SMs is a GEMM of 108 blocks, 16 that send its
tiles and 8 that add; with two ranks on one GPU each has 66 SMs, and the GEMM 42.
"""

from dataclasses import dataclass
from typing import Literal, get_args

from wavesim.errors import DescriptionError
from wavesim_gpu.peers.problem import SharedGemm
from wavesim_gpu.runtime.compiler import Build

Way = Literal["stores", "blocks", "copies"]
WAYS: tuple[Way, ...] = get_args(Way)
# Blocks that write fill an NVLink from 16 on; adding is half of what they then do, and each costs the GEMM an
# SM.
REDUCE_BLOCKS, SEND_BLOCKS = 8, 16
ADDING_PER_SM = 2  # blocks that add tiles, reduce.cu's reduce_blocks_per_sm; those that norm rows fill an SM
LIMIT_S = 30.0


@dataclass(frozen=True)
class CallOptions:
    """`way`: the GEMM stores its tiles to their owners; or keeps them, and `send_blocks` blocks beside it
    copy them, or the copy engine does, chunks of rows at a time. What arrives is added on `reduce_blocks` SMs
    beside it; with 0, of stores, the GEMM has all SMs and blocks that add come where its blocks have left.

    A wait that lasts longer than `limit_s` gives up, on all ranks.
    """

    way: Way = "stores"
    reduce_blocks: int = REDUCE_BLOCKS
    send_blocks: int = SEND_BLOCKS
    limit_s: float = LIMIT_S
    build: Build = Build()  # noqa: RUF009  # frozen


@dataclass(frozen=True)
class PeerBlocks:
    """Thread blocks of each kernel of a call on one GPU; 0 where it has no such kernel.

    `copy`: those between copies, one after the other. `following`: of the product that follows.
    """

    gemm: int
    reduce: int
    send: int
    copy: int = 0
    following: int = 0

    @property
    def all(self) -> int:
        """Of all of them: the last one to retire ends the call."""
        return self.gemm + self.reduce + self.send + self.copy + self.following


def blocks_of(
    problem: SharedGemm, sm_count: int, options: CallOptions, sharers: int = 1, rank: int = 0
) -> PeerBlocks:
    """Of a rank. Where `sharers` ranks share the GPU each has its part: a block an SM, so that those of all
    that wait for each other are resident together. Raises `DescriptionError` where the GEMM has no SM left.
    """
    is_sent = problem.gathers or options.way == "blocks"
    adds_after = options.way == "stores" and options.reduce_blocks == 0
    wanted = {"reduce_blocks": not problem.gathers and not adds_after, "send_blocks": is_sent}
    counts = {name: getattr(options, name) if is_there else 0 for name, is_there in wanted.items()}
    for name, is_there in wanted.items():
        if is_there and counts[name] < 1:
            raise DescriptionError(f"SharedGemm: {name} is {counts[name]}; it must be 1 or more. Use 8")
    chunks = len(problem.chunks_sent(rank)) if options.way == "copies" else 0
    comm, sms = sum(counts.values()) + bool(chunks), sm_count // sharers
    if comm >= sms:
        part = f", a rank's part of {sm_count} where {sharers} ranks share a GPU," if sharers > 1 else ""
        raise DescriptionError(
            f"SharedGemm: {comm} communication blocks on {sms} SMs{part} leave none for the GEMM. Use fewer"
        )
    left = sms - comm
    following = problem.next_gemm
    made = min(problem.gemm.grid.tiles * problem.split_k, left)
    return PeerBlocks(
        made,
        0 if problem.gathers else _adding(problem, counts["reduce_blocks"], (left - made, sms), sharers),
        counts["send_blocks"],
        chunks + 1 if chunks else 0,
        min(following.grid.tiles, left) if following is not None else 0,
    )


def _adding(problem: SharedGemm, chosen: int, idle_and_all: tuple[int, int], sharers: int) -> int:
    """Blocks that add: on the chosen SMs and on those that a small GEMM leaves idle; on all once it has left.

    Where ranks share a GPU one an SM: two of one rank on two SMs would leave the other's GEMM neither.
    """
    idle, sms = idle_and_all
    if problem.following is not None or sharers > 1:
        return chosen or min(sms, problem.tiles)
    return min(ADDING_PER_SM * (chosen + idle if chosen else sms), problem.tiles)


def require_way(problem: SharedGemm, options: CallOptions) -> None:
    """Raises `DescriptionError` for a way that a product's tiles cannot take."""
    if options.way not in WAYS:
        raise DescriptionError(f"SharedGemm: way is {options.way!r}; it must be one of {', '.join(WAYS)}")
    if options.way != "stores" and (problem.gathers or problem.is_one_shot):
        raise DescriptionError(
            f"SharedGemm: way {options.way} is for two-shot all-reduce and reduce-scatter; an all-gather's "
            "tiles are sent by blocks anyway, and one-shot ones by the GEMM. Use stores"
        )
    if options.way == "copies" and problem.share == 0:
        raise DescriptionError(
            "SharedGemm: chunk_rows is 0, columns of tiles in turns; the copy engine takes rows. Use 1 or "
            "more"
        )
