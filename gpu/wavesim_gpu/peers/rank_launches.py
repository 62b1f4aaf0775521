"""One rank's kernels of a call, in the order in which they are launched.

Example: rank 0 of a two-shot all-reduce over two ranks: a GEMM of 124 blocks that stores tiles of even
columns into its own staging and those of odd columns into rank 1's, then 8 blocks that add the even ones of
both. The rank's GPU is current while this is made.
"""

from collections.abc import Sequence
from typing import Any, Protocol

from wavesim_gpu.peers.products import PeerProduct, exchange_gemm, gather_gemm, next_gemm, scatter_gemm
from wavesim_gpu.peers.rank_view import RankView
from wavesim_gpu.peers.sends import BESIDE, MAIN, copy_steps, meeting, send_launch
from wavesim_gpu.peers.sums import reduce_launch


class PeerStep(Protocol):
    """A kernel, a copy, or streams that meet."""

    def enqueue(self, streams: Sequence[Any]) -> None:
        """Launches it on one of a rank's two streams."""
        ...


class RankLaunches:
    """Those of a rank. A kernel may start when all blocks of the one before it in its stream have."""

    def __init__(self, view: RankView) -> None:
        self.view = view
        self.products: list[PeerProduct] = []
        self.launches: list[PeerStep]
        self.added: Any = None  # what the blocks that add have recorded, where they do
        if view.problem.gathers:
            self.launches = self._gathered()
        else:
            self.launches = self._exchanged() if view.options.way == "exchange" else self._scattered()

    def _exchanged(self) -> list[PeerStep]:
        self.products = [exchange_gemm(self.view)]
        return [self.products[0].launch]

    def _gathered(self) -> list[PeerStep]:
        self.products = [gather_gemm(self.view)]
        gemm = self.products[0].launch
        if self.view.options.way == "copies":
            return [meeting(MAIN, BESIDE), gemm, *copy_steps(self.view), meeting(BESIDE, MAIN)]
        return [send_launch(self.view), gemm]

    def _scattered(self) -> list[PeerStep]:
        view = self.view
        self.products = [scatter_gemm(view)]
        gemm = self.products[0].launch
        adding, self.added = reduce_launch(view)
        # Copies go ahead of what waits for them, in case that both streams share a hardware queue.
        copies = copy_steps(view) if view.options.way == "copies" else []
        sent = [send_launch(view)] if view.options.way == "blocks" else []
        if view.problem.following is not None:
            self.products.append(next_gemm(view))
        after = [one.launch for one in self.products[1:]]
        if not copies:
            return [gemm, *sent, adding, *after]
        return [meeting(MAIN, BESIDE), gemm, *copies, adding, *after, meeting(BESIDE, MAIN)]
