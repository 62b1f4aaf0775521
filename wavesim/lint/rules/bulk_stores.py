"""Tiles that threads stage in shared memory are fenced before TMA stores them.

Example: all threads write the tile, each runs fence.proxy.async.shared::cta, the barrier follows, and one
thread issues the store. A fence behind the barrier is run by one thread, and orders its own writes alone.

Source: PTX ISA 9.0, section 9.7.9.25 (the async proxy), 8.6 (proxies).
"""

from collections.abc import Iterator
from typing import NamedTuple

from wavesim.lint.code import Code
from wavesim.lint.finding import Finding
from wavesim.lint.instruction import Op
from wavesim.lint.judging import BLOCK, NONE, judged, line, sync_needed
from wavesim.lint.paths import walk

_SYNCS = frozenset({Op.BARRIER, Op.CLUSTER_WAIT, Op.MBARRIER_TEST, Op.WARP_SYNC})


class Staged(NamedTuple):
    """What stands between here and the bulk store."""

    synced: int = NONE
    is_fenced: bool = False  # at this side of the barrier


def judge_bulk_stores(code: Code) -> Iterator[Finding]:
    """Bulk stores of shared memory that threads wrote with no proxy fence of their own behind it."""
    for store in _from_shared(code):

        def step(i: int, state: Staged) -> Staged | None:
            if code[i].op in _SYNCS:
                return Staged(BLOCK)
            if code[i].op is Op.PROXY_FENCE and code[i].space != "global":
                return state._replace(is_fenced=True)
            return state

        for i, state in walk(code.backward, [(store, Staged())], step):
            is_write = code[i].op is Op.STORE and code[i].space == "shared"
            if is_write and not state.is_fenced and _is_staged(code, i, store, state):
                why = (
                    f"{line(code[i])} writes shared memory, and no fence.proxy.async of the writer stands "
                    f"between it and TMA, which reads it in {line(code[store])}"
                )
                yield judged(code, "no-proxy-fence", store, why, (i,))
                return


def _from_shared(code: Code) -> Iterator[int]:
    """The bulk copies that read shared memory: to global memory, or to another block's of the cluster."""
    yield from code.having(Op.BULK_STORE, Op.BULK_REDUCE)
    yield from (i for i in code.having(Op.BULK_LOAD) if code[i].space == "shared::cluster")


def _is_staged(code: Code, write: int, store: int, state: Staged) -> bool:
    """Whether it writes a part of a tile: all threads do, or where the kernel has no proxy fence, anybody."""
    needed = sync_needed(code, store, write)
    has_fence = any(code[i].space != "global" for i in code.having(Op.PROXY_FENCE))
    return needed <= state.synced and (needed > NONE or not has_fence)
