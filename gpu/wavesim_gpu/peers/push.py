"""Outputs that lie in each rank's memory, summed by one kernel behind whatever product made them (push.cu).

Example: `PushedSums(workspace, 0, 16 * 4096, "bf16").launch(out, out, stream)` adds the other ranks' outputs
to the 16 x 4,096 ones at `out`. Prepared once; a call stores two addresses and launches. What is given may
lie anywhere, so that a library's GEMM writes to the output itself.
"""

from typing import Any, Literal

import numpy as np

from wavesim.errors import DescriptionError
from wavesim_gpu.driver.compiler import Build
from wavesim_gpu.driver.device import query
from wavesim_gpu.driver.functions import load_function
from wavesim_gpu.driver.kernel_launch import DeviceLaunch, KernelLaunch
from wavesim_gpu.kernels.collective import SOURCES
from wavesim_gpu.peers.layout import PUSH_PARAMS
from wavesim_gpu.peers.options import LIMIT_S
from wavesim_gpu.peers.problem import UNIT
from wavesim_gpu.peers.rank_view import peer_params
from wavesim_gpu.peers.regions import ELEMENT, QUICK_BYTES
from wavesim_gpu.peers.regions import WORD as POST
from wavesim_gpu.peers.workspace import WORD, PreparedLaunch, Workspace

PUSH = SOURCES / "push.cu"
THREADS = 512
FEW_VECTORS, MANY_VECTORS = 1, 4  # of a thread; many where one of each would take more than a wave of blocks
BLOCKS_PER_SM = 2
QUICK_THREADS = 256


def parts_of(elements: int, ranks: int, sm_count: int) -> tuple[int, int]:
    """Parts that a block takes at once, and vectors of each thread, of sums of so many outputs."""
    vectors = elements // UNIT
    each = FEW_VECTORS if vectors <= THREADS * BLOCKS_PER_SM * sm_count or ranks > 2 else MANY_VECTORS
    return -(-vectors // (THREADS * each)), each


class PushedSums:
    """One rank's calls: sums of `elements` outputs over all ranks; with `scatters`, of the rank's own part of
    `ranks * elements`. Raises `DescriptionError`, `DeviceError` and `CompileError`.
    """

    following, gathers = None, False  # who waited for what: a part is a tile of one row

    def __init__(
        self,
        workspace: Workspace,
        rank: int,
        elements: int,
        dtype: Literal["fp16", "bf16"],
        *,
        scatters: bool = False,
        limit_s: float = LIMIT_S,
    ) -> None:
        if elements < UNIT or elements % UNIT:
            raise DescriptionError(
                f"sums of {elements} outputs: they are pushed in vectors of {UNIT}. Use a width that is a "
                f"multiple of {UNIT}"
            )
        self.workspace, self.rank, self._limit_s = workspace, rank, limit_s
        memory, ranks = workspace.memory, workspace.group.rank_count
        with workspace.group.on(rank):
            sms = query().sm_count
            self.columns, each = parts_of(elements, ranks, sms)
            self._blocks = min(self.columns, BLOCKS_PER_SM * sms // workspace.group.sharers_of(rank))
            others = ranks - 1
            memory.require_inside("staging", 2 * others * elements * ELEMENT)
            memory.require_inside("arrived", others * self.columns * POST)
            kinds = f"{ranks}, {str(dtype == 'bf16').lower()}"
            name, threads = f"push_sums<{kinds}, {each}>", THREADS
            if elements * ELEMENT * 2 <= QUICK_BYTES:
                name, threads = f"push_few<{kinds}>", QUICK_THREADS
                self._blocks = self.columns = -(-elements // UNIT // QUICK_THREADS)
            shape = KernelLaunch(name, threads, 0, self._blocks, is_dependent=True)
            function = load_function(PUSH, name, Build())
            self._launch = PreparedLaunch(DeviceLaunch(function, shape, (self._record(elements),), 0))
        fields = PUSH_PARAMS.fields
        assert fields is not None
        apart = elements * ELEMENT if scatters else 0
        self._given = [(fields["given"][1] // WORD + r, r * apart) for r in range(ranks)]
        self._out_word = fields["out"][1] // WORD

    def launch(self, given: int, out: int, stream: int) -> None:
        """One call on a stream: the outputs at `given`, their sums to `out`, which may be the same. Whole
        vectors begin there. The GPU must be current. Raises `DeadlockError` and `DeviceError`.
        """
        workspace, words = self.workspace, self._launch.words
        workspace.check(self.rank)
        with workspace.lock:
            for word, offset in self._given:
                words[word] = given + offset
            words[self._out_word] = out
            workspace.latest[self.rank] = self, self._limit_s
            self._launch.start(stream)

    def owner(self, _x: int, _y: int) -> int:
        """Every rank adds all parts that it keeps."""
        return self.rank

    def _record(self, elements: int) -> Any:
        memory, rank, ranks = self.workspace.memory, self.rank, self.workspace.group.rank_count
        staging, arrived = (memory.layout.sizes[name] for name in ("staging", "arrived"))
        place, words = staging // 2 // (ranks - 1), arrived // (ranks - 1)
        record = np.zeros(1, PUSH_PARAMS)[0]
        record["peers"] = peer_params(
            memory, rank, ranks, limit_ns=int(self._limit_s * 1e9), blocks=self._blocks, parity_mask=1
        )
        record["parts"], record["count"] = self.columns, elements // UNIT
        record["apart"] = staging // 2 // (UNIT * ELEMENT)
        record["quick_apart"] = (ranks - 1) * QUICK_BYTES // WORD
        for other in range(ranks):
            if other == rank:
                continue
            # A sender's place among the others of whom it sends to.
            there, here = (
                sender - (sender > receiver) for sender, receiver in ((rank, other), (other, rank))
            )
            record["there"][other] = memory.address(rank, other, "staging") + there * place
            record["posts"][other] = memory.address(rank, other, "arrived") + there * words
            record["quick_there"][other] = memory.address(rank, other, "quick") + there * QUICK_BYTES
            record["quick_here"][other] = memory.address(rank, rank, "quick") + here * QUICK_BYTES
            record["here"][other] = memory.address(rank, rank, "staging") + here * place
            record["arrived"][other] = memory.address(rank, rank, "arrived") + here * words
        return record
