"""A layer's GEMM and collective over two GPUs, prepared once: a call is one kernel and a few microseconds.

Example: `ExchangeLinear(workspace, 0, problem, options, w).launch(x, out, stream)` stores two addresses into
parameters that lie ready and launches. Nothing is allocated, nobody is waited for; the number of the call
counts on the device, so that a CUDA graph's replays are calls like others. Layers of all shapes that fit
share a `Workspace`, and one that gave up is told by the next call of any.
"""

from dataclasses import replace

from wavesim_gpu.driver.device import query
from wavesim_gpu.peers.layout import EXCHANGE, EXCHANGE_PARAMS
from wavesim_gpu.peers.options import CallOptions, blocks_of, require_way
from wavesim_gpu.peers.problem import SharedGemm
from wavesim_gpu.peers.products import exchange_gemm
from wavesim_gpu.peers.rank_view import RankOperands, RankView
from wavesim_gpu.peers.regions import require_room
from wavesim_gpu.peers.workspace import WORD, PreparedLaunch, Workspace


class ExchangeLinear:
    """One rank's calls: x (m, k) times w, with rank 0's bias, summed with the other's. `w` and `bias` are
    addresses. Raises `DescriptionError`, `DeviceError` and `CompileError`.
    """

    def __init__(
        self,
        workspace: Workspace,
        rank: int,
        problem: SharedGemm,
        options: CallOptions,
        w: int,
        bias: int = 0,
    ) -> None:
        require_way(problem, options)
        require_room(workspace.memory, problem, "exchange")
        self.workspace, self.rank, self.problem = workspace, rank, problem
        self._limit_s, group = options.limit_s, workspace.group
        with group.on(rank) as cupy:
            blocks = blocks_of(problem, query().sm_count, options, group.sharers_of(rank), rank)
            # Any aligned address does until a call has told its own.
            operands = RankOperands(w, w, workspace.memory.address(rank, rank, "sums"), bias)
            self._view = RankView(problem, workspace.memory, rank, operands, blocks, options)
            self._product = exchange_gemm(self._view)
            cupy.cuda.Device().synchronize()  # tables are zeroed on another stream
        launch = self._product.launch
        self._launch = PreparedLaunch(replace(launch, shape=replace(launch.shape, is_dependent=False)))
        self._words = self._launch.words
        params, exchange = EXCHANGE_PARAMS.fields, EXCHANGE.fields
        assert params is not None
        assert exchange is not None
        start = self._launch.starts[1]
        c = start + params["c"][1]
        self._x_word = (start + params["layer"][1]) // WORD  # A's map comes first
        self._out_map_word, self._out_word = ((c + exchange[name][1]) // WORD for name in ("own_out", "out"))
        maps = self._x_word, self._out_map_word
        self._has_words = all(self._launch.has_plain_map(word, w) for word in maps)

    def launch(self, x: int, out: int, stream: int) -> None:
        """One call on a stream, of operands at these addresses, which TMA takes. The GPU must be current.

        Raises `DeadlockError` where an earlier call has given up, `DeviceError` with the driver's word.
        """
        workspace = self.workspace
        workspace.check(self.rank)
        words = self._words
        with workspace.lock:
            if self._has_words:
                words[self._x_word] = x
                words[self._out_map_word] = out
            else:
                self._launch.move_map(self._x_word, x)
                self._launch.move_map(self._out_map_word, out)
            words[self._out_word] = out
            workspace.latest[self.rank] = self.problem, self._limit_s
            self._launch.start(stream)
