"""Outputs that lie in each rank's memory, summed by one kernel behind whatever product made them (push.cu).

Example: `PushedSums(workspace, 0, 16 * 4096, "bf16").launch(out, out, stream)` adds the other ranks' outputs
to the 16 x 4,096 ones at `out`. Prepared once; a call stores a few addresses and launches. What is given may
lie anywhere, so that a library's GEMM writes to the output itself.
"""

from dataclasses import dataclass
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
from wavesim_gpu.peers.regions import ELEMENT, HALVES, QUICK_BYTES
from wavesim_gpu.peers.regions import WORD as POST
from wavesim_gpu.peers.workspace import WORD, PreparedLaunch, Workspace

PUSH = SOURCES / "push.cu"
THREADS, QUICK_THREADS = 512, 256
FEW_VECTORS, MANY_VECTORS = 1, 4  # of a thread; many where one of each would take more than a wave of blocks
BLOCKS_PER_SM = 2
# Of more than two ranks: what every rank sends whole to all others. Not measured: two waits of a few
# microseconds against (ranks - 1) times the bytes at 400 GB/s.
WHOLE_BYTES = 512 << 10


@dataclass(frozen=True)
class PushForm:
    """How so many outputs of each rank are summed: the kernel, its parts, and what a rank adds of them.

    `shares` are 1 where every rank adds all that it keeps, else as many as ranks: each sends its own.
    """

    kernel: str
    parts: int
    shares: int = 1
    threads: int = THREADS


def form_of(elements: int, ranks: int, dtype: str, sm_count: int, *, scatters: bool = False) -> PushForm:
    """Of an all-reduce of `elements`; with `scatters` of a reduce-scatter that leaves a rank so many.

    Raises `DescriptionError` for outputs that are no whole vectors.
    """
    if elements < UNIT or elements % UNIT:
        raise DescriptionError(
            f"sums of {elements} outputs: they are pushed in vectors of {UNIT}. Use a width that is a "
            f"multiple of {UNIT}"
        )
    kinds, vectors = f"{ranks}, {str(dtype == 'bf16').lower()}", elements // UNIT
    if elements * ELEMENT * 2 <= QUICK_BYTES:
        return PushForm(f"push_few<{kinds}>", -(-vectors // QUICK_THREADS), threads=QUICK_THREADS)
    if ranks > 2 and not scatters and elements * ELEMENT > WHOLE_BYTES and vectors % ranks == 0:
        return PushForm(f"push_shares<{kinds}>", -(-vectors // ranks // THREADS), ranks)
    is_few = ranks > 2 or vectors <= THREADS * BLOCKS_PER_SM * sm_count
    each = FEW_VECTORS if is_few else MANY_VECTORS
    return PushForm(f"push_sums<{kinds}, {each}>", -(-vectors // (THREADS * each)))


def form_of_halves(elements: int, dtype: str, *, scatters: bool = False) -> PushForm:
    """Of two ranks whose copy engines bring each other's part: an all-reduce of so many outputs, or a
    reduce-scatter that leaves a rank so many. Raises `DescriptionError`.
    """
    shares = 1 if scatters else HALVES
    if elements % (UNIT * shares):
        raise DescriptionError(
            f"sums of {elements} outputs in halves: each is added in vectors of {UNIT}. Use an even "
            f"number of rows, and a width that is a multiple of {UNIT}"
        )
    kernel = f"push_halves<{str(dtype == 'bf16').lower()}, {str(scatters).lower()}>"
    return PushForm(kernel, -(-elements // shares // UNIT // THREADS), shares)


class PushedSums:
    """One rank's calls: sums of `elements` outputs over all ranks; with `scatters`, of the rank's own part of
    `ranks * elements`. `in_halves`: of two ranks, which copy each other's part to `half` themselves.
    Raises `DescriptionError`, `DeviceError` and `CompileError`.
    """

    following, gathers = None, False  # who waited for what: a part is a tile of one row
    # Where the copy engine takes the other rank's part, in halves.
    half_there = property(lambda self: self.workspace.memory.address(self.rank, 1 - self.rank, "half"))

    def __init__(
        self,
        workspace: Workspace,
        rank: int,
        elements: int,
        dtype: Literal["fp16", "bf16"],
        *,
        scatters: bool = False,
        in_halves: bool = False,
        limit_s: float = LIMIT_S,
    ) -> None:
        self.workspace, self.rank, self._limit_s = workspace, rank, limit_s
        ranks = workspace.group.rank_count
        with workspace.group.on(rank):
            sms = query().sm_count // workspace.group.sharers_of(rank)
            form = form_of(elements, ranks, dtype, query().sm_count, scatters=scatters)
            if in_halves:
                form = form_of_halves(elements, dtype, scatters=scatters)
            self.columns, self._share = form.parts, elements // form.shares
            is_quick = form.threads == QUICK_THREADS
            self._blocks = form.parts if is_quick else min(form.parts, BLOCKS_PER_SM * sms)
            self._require_room(form, elements, ranks, in_halves=in_halves)
            # Behind a copy, the kernel depends on more than the one before it.
            shape = KernelLaunch(form.kernel, form.threads, 0, self._blocks, is_dependent=not in_halves)
            function = load_function(PUSH, form.kernel, Build())
            record = self._record("half" if in_halves else "staging")
            self._launch = PreparedLaunch(DeviceLaunch(function, shape, (record,), 0))
        fields = PUSH_PARAMS.fields
        assert fields is not None
        apart = self._share * ELEMENT if scatters or form.shares > 1 else 0
        self._given = [(fields["given"][1] // WORD + r, r * apart) for r in range(ranks)]
        self._as_latest = self, self._limit_s
        self._out = fields["out"][1] // WORD, rank * apart if form.shares > 1 else 0

    def launch(self, given: int, out: int, stream: int) -> None:
        """One call on a stream: the outputs at `given`, their sums to `out`, which of an all-reduce is the
        same. Whole vectors begin there. The GPU must be current. Raises `DeadlockError` and `DeviceError`.
        """
        workspace, words = self.workspace, self._launch.words
        workspace.check(self.rank)
        with workspace.lock:
            for word, offset in self._given:
                words[word] = given + offset
            word, offset = self._out
            words[word] = out + offset
            workspace.latest[self.rank] = self._as_latest
            self._launch.start(stream)

    def owner(self, _x: int, _y: int) -> int:
        """Every rank adds all parts that it keeps."""
        return self.rank

    def _require_room(self, form: PushForm, elements: int, ranks: int, *, in_halves: bool) -> None:
        memory, others = self.workspace.memory, ranks - 1
        memory.require_inside("staging", 2 * others * self._share * ELEMENT)
        memory.require_inside("arrived", others * form.parts * POST)
        if in_halves:
            memory.require_inside("half", self._share * ELEMENT)
        if form.shares > 1 or in_halves:
            memory.require_inside("sums", elements * ELEMENT)
            memory.require_inside("finished", ranks * form.parts * POST)

    def _record(self, incoming: str) -> Any:
        memory, rank, ranks = self.workspace.memory, self.rank, self.workspace.group.rank_count
        staging, arrived = (memory.layout.sizes[name] for name in ("staging", "arrived"))
        place, words = staging // 2 // (ranks - 1), arrived // (ranks - 1)
        record = np.zeros(1, PUSH_PARAMS)[0]
        record["peers"] = peer_params(
            memory, rank, ranks, limit_ns=int(self._limit_s * 1e9), blocks=self._blocks, parity_mask=1
        )
        record["parts"], record["count"] = self.columns, self._share // UNIT
        record["apart"] = staging // 2 // (UNIT * ELEMENT)
        record["quick_apart"] = (ranks - 1) * QUICK_BYTES // WORD

        def put(name: str, region: str, other: int, mine: int, theirs: int) -> None:
            """What this rank stores there, and what the other stores here."""
            record[f"{name}there"][other] = memory.address(rank, other, region) + mine
            record[f"{name}here"][other] = memory.address(rank, rank, region) + theirs

        share, posts = self._share * ELEMENT, self.columns * POST
        for other in range(ranks):
            if other == rank:
                continue
            # A sender's place among all but the one it sends to.
            there, here = rank - (rank > other), other - (other > rank)
            put("", incoming, other, there * place, here * place)
            put("quick_", "quick", other, there * QUICK_BYTES, here * QUICK_BYTES)
            put("sums_", "sums", other, rank * share, other * share)
            put("finished_", "finished", other, rank * posts, other * posts)
            record["posts"][other] = memory.address(rank, other, "arrived") + there * words
            record["arrived"][other] = memory.address(rank, rank, "arrived") + here * words
        return record
