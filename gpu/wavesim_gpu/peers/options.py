"""How a call is made, beyond what it computes, and how a GPU's SMs are dealt out for it.

Example: `CallOptions("blocks")` of a two-shot all-reduce on 132 SMs is a GEMM of 108 blocks, 16 that send its
tiles and 8 that add; with two ranks on one GPU each has 66 SMs, and the GEMM 42.
"""

from dataclasses import dataclass
from typing import Literal, get_args

from wavesim.errors import DescriptionError
from wavesim_gpu.driver.compiler import Build
from wavesim_gpu.peers.problem import SharedGemm

Way = Literal["stores", "exchange", "blocks", "copies"]
WAYS: tuple[Way, ...] = get_args(Way)
# Blocks that write fill an NVLink from 16 on; adding is half of what they then do, and each costs the GEMM an
# SM.
REDUCE_BLOCKS, SEND_BLOCKS = 8, 16
MOST_LIMIT_S = 1e6  # of a wait: 11 days, which nanoseconds in 64 bits hold
ADDING_PER_SM = 2  # blocks that add tiles, reduce.cu's reduce_blocks_per_sm; those that norm rows fill an SM
EXCHANGING = 2  # ranks: of more, the sums of rounded outputs would be rounded more than once
LIMIT_S = 30.0


@dataclass(frozen=True)
class CallOptions:
    """`way`: the GEMM stores its tiles to their owners; or keeps them, and `send_blocks` blocks beside it
    copy them, or the copy engine does, chunks of rows at a time. What arrives is added on `reduce_blocks` SMs
    beside it; with 0, the default of stores, the GEMM has all SMs, and blocks that add come where its blocks
    have left, which was measured to be faster.

    "exchange" is for two ranks: each stores the other's tiles there and then adds, in the epilogue of its own
    tiles, what has come; the GEMM has all SMs, and no kernel comes after. Once `ahead` of the other's have
    been made they take turns with own ones; 0: all come before.

    An all-gather's rows are sent by blocks, or by the copy engine in `copies` parts of K ("copies").

    A wait that lasts longer than `limit_s` gives up, on all ranks.
    """

    way: Way = "stores"
    reduce_blocks: int | None = None
    send_blocks: int = SEND_BLOCKS
    copies: int = 1
    ahead: int = 0
    limit_s: float = LIMIT_S
    build: Build = Build()  # noqa: RUF009  # frozen

    def adding_sms(self, problem: SharedGemm, sharers: int = 1) -> int:
        """SMs that add beside the GEMM; 0: after it.

        Where `sharers` ranks share a GPU some always do: else one's blocks that add could take the SMs of
        the other's GEMM, for whose tiles they wait.
        """
        if self.reduce_blocks is not None:
            return self.reduce_blocks
        is_after = self.way == "stores" and problem.following is None and sharers == 1
        return 0 if is_after else REDUCE_BLOCKS


def options_named(word: str, limit_s: float = LIMIT_S) -> CallOptions:
    """Those of a way's name in results: "stores", "stores:8" (SMs that add), "exchange", "exchange:132"
    (tiles of the other's that come before they take turns), "copies:2" (parts of an all-gather's K).
    """
    way, _, count = word.partition(":")
    number = {"stores": "reduce_blocks", "exchange": "ahead", "copies": "copies"}[way]
    chosen = {number: int(count)} if count else {}
    if way == "stores" and not count:
        chosen = {number: 0}
    return CallOptions(way, limit_s=limit_s, **chosen)  # type: ignore[arg-type]  # the dictionary knew it


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
    is_sent = options.way == "blocks" or (problem.gathers and options.way != "copies")
    has_adding = not problem.gathers and options.way != "exchange"
    adding = options.adding_sms(problem, sharers)
    adds_after = options.way == "stores" and adding == 0 and sharers == 1
    wanted = {"reduce_blocks": has_adding and not adds_after, "send_blocks": is_sent}
    asked = {"reduce_blocks": adding, "send_blocks": options.send_blocks}
    counts = {name: asked[name] if is_there else 0 for name, is_there in wanted.items()}
    for name, is_there in wanted.items():
        if is_there and counts[name] < 1:
            raise DescriptionError(f"SharedGemm: {name} is {counts[name]}; it must be 1 or more. Use 8")
    chunks = _copies(problem, options, rank) if options.way == "copies" else 0
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
        _adding(problem, counts["reduce_blocks"], (left - made, sms), sharers) if has_adding else 0,
        counts["send_blocks"],
        chunks + 1 if chunks else 0,
        min(following.grid.tiles, left) if following is not None else 0,
    )


def _copies(problem: SharedGemm, options: CallOptions, rank: int) -> int:
    if problem.gathers:
        return len(problem.parts_sent(rank, options.copies))
    return len(problem.chunks_sent(rank))


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
    if options.ahead < 0:
        raise DescriptionError(
            f"SharedGemm: ahead is {options.ahead}; of the other's tiles 0 (all) or more come first"
        )
    if not 0 < options.limit_s <= MOST_LIMIT_S:
        raise DescriptionError(
            f"SharedGemm: limit_s is {options.limit_s}; a wait lasts more than 0 s and at most "
            f"{MOST_LIMIT_S:,.0f}. Use {LIMIT_S:g}"
        )
    if problem.gathers:
        _require_gathering(problem, options)
        return
    if options.way != "stores" and problem.is_one_shot:
        raise DescriptionError(
            f"SharedGemm: way {options.way} is for two-shot all-reduce and reduce-scatter; one-shot ones are "
            "sent by the GEMM. Use stores"
        )
    if options.way == "exchange":
        _require_exchange(problem)
    elif problem.has_bias:
        raise DescriptionError(
            f"SharedGemm: has a bias, which by way {options.way} every rank would add once. Use exchange, or "
            "add it afterwards"
        )
    if options.way == "copies" and problem.share == 0:
        raise DescriptionError(
            "SharedGemm: chunk_rows is 0, columns of tiles in turns; the copy engine takes rows. Use 1 or "
            "more"
        )


def _require_gathering(problem: SharedGemm, options: CallOptions) -> None:
    if options.way not in ("stores", "copies"):
        raise DescriptionError(
            f"SharedGemm: way {options.way} is for sums; an all-gather's rows are sent by blocks (way "
            "stores) or by the copy engine. Use copies"
        )
    most = problem.gathered.grid.x
    if not 1 <= options.copies <= most:
        raise DescriptionError(
            f"SharedGemm: copies is {options.copies}; an all-gather of K = {problem.k} has 1 to {most} parts"
        )


def _require_exchange(problem: SharedGemm) -> None:
    if problem.ranks != EXCHANGING or problem.following is not None:
        raise DescriptionError(
            f"SharedGemm: way exchange is for {EXCHANGING} ranks and no norm behind the sums; there are "
            f"{problem.ranks} ranks. Use stores"
        )
    half = -(-problem.rows // EXCHANGING)
    if problem.share != half:
        raise DescriptionError(
            f"SharedGemm: chunk_rows is {problem.chunk_rows}; for way exchange each rank adds half of the "
            f"{problem.rows} rows of tiles. Use {half}"
        )
