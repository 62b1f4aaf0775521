"""A layer's GEMM and collective over two GPUs, prepared once: a call is one kernel and a few microseconds.

Example: `ExchangeLinear(workspace, 0, problem, options, w).launch(x, out, stream)` stores two addresses into
parameters that lie ready and launches. Nothing is allocated, nobody is waited for; the number of the call
counts on the device, so that a CUDA graph's replays are calls like others. Layers of all shapes that fit
share a `Workspace`, and one that gave up is told by the next call of any.
"""

import ctypes
import threading
from ctypes import c_void_p
from dataclasses import replace
from typing import Any

import numpy as np

from wavesim.errors import DeviceError
from wavesim_gpu.driver.device import query
from wavesim_gpu.driver.driver_api import require_driver, status_name
from wavesim_gpu.driver.kernel_launch import launch_config, launch_error
from wavesim_gpu.peers.groups import PeerGroup
from wavesim_gpu.peers.layout import ERRORS, EXCHANGE, EXCHANGE_PARAMS
from wavesim_gpu.peers.options import CallOptions, blocks_of, require_way
from wavesim_gpu.peers.problem import SharedGemm
from wavesim_gpu.peers.products import exchange_gemm
from wavesim_gpu.peers.rank_view import RankOperands, RankView
from wavesim_gpu.peers.regions import ELEMENT, exchange_layout, failure, require_room

LEAST_BYTES, LEAST_TILES = 4 << 20, 1024
MAP_ALIGNMENT, MAP_BYTES, WORD = 64, 128, 8
HOST_TO_DEVICE, DEVICE_TO_HOST = 1, 2  # cudaMemcpyKind


def workspace_size(problem: SharedGemm) -> tuple[int, int]:
    """Bytes of outputs and tiles of the workspace that a layer shares: powers of two."""
    outputs = problem.m * problem.n * ELEMENT
    return max(LEAST_BYTES, _power_of_two(outputs)), max(LEAST_TILES, _power_of_two(problem.tiles))


def _power_of_two(least: int) -> int:
    return 1 << (least - 1).bit_length()


class Workspace:
    """Memory that both ranks' calls share, of one group, and what tells the host of a wait that gave up.

    It is kept as long as the process lives: a captured graph may still use it when its group is gone. Making
    one is a collective call. `lock` is held by whoever launches.
    """

    def __init__(self, group: PeerGroup, size: tuple[int, int]) -> None:
        self.group, self.lock = group, threading.Lock()
        self.memory = group.allocate(exchange_layout(*size))
        self.latest: dict[int, tuple[SharedGemm, float]] = {}  # by rank: what was launched, its limit
        self._told: dict[int, Any] = {}
        self._kept: list[Any] = []
        for rank in group.ranks:
            with group.on(rank) as cupy:
                self._told[rank] = self._tell(rank, cupy)
        group.barrier()

    def check(self, rank: int) -> None:
        """Raises `DeadlockError` where a call of the rank has given up. Does not wait for the GPU else."""
        if not self._told[rank].value:
            return
        with self.group.on(rank) as cupy:
            errors = np.zeros(1, ERRORS)
            cupy.cuda.runtime.memcpy(errors.ctypes.data, self._errors(rank), errors.nbytes, DEVICE_TO_HOST)
        problem, limit_s = self.latest[rank]
        raise failure(problem, rank, errors.view(np.uint8), limit_s)

    def _errors(self, rank: int) -> int:
        return self.memory.address(rank, rank, "errors")

    def _tell(self, rank: int, cupy: Any) -> Any:
        """A word in the host's memory that a wait sets when it gives up."""
        pinned = cupy.cuda.alloc_pinned_memory(WORD)
        word = ctypes.c_uint.from_address(int(pinned.ptr))
        word.value = 0
        address = np.array([int(pinned.ptr)], np.uint64)
        assert ERRORS.fields is not None
        there = self._errors(rank) + ERRORS.fields["told"][1]
        cupy.cuda.runtime.memcpy(there, address.ctypes.data, address.nbytes, HOST_TO_DEVICE)
        self._kept.append(pinned)
        return word


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
        self._limit_s, group, driver = options.limit_s, workspace.group, require_driver()
        with group.on(rank) as cupy:
            blocks = blocks_of(problem, query().sm_count, options, group.sharers_of(rank), rank)
            # Any aligned address does until a call has told its own.
            operands = RankOperands(w, w, workspace.memory.address(rank, rank, "sums"), bias)
            self._view = RankView(problem, workspace.memory, rank, operands, blocks, options)
            self._product = exchange_gemm(self._view)
            cupy.cuda.Device().synchronize()  # tables are zeroed on another stream
        launch = self._product.launch
        self._pack(launch.arguments)
        self._config = launch_config(replace(launch.shape, is_dependent=False), 0)
        self._how, self._function = ctypes.byref(self._config), c_void_p(int(launch.function.function.ptr))
        self._launch, self._replace = driver.cuLaunchKernelEx, driver.cuTensorMapReplaceAddress
        sums = workspace.memory.address(rank, rank, "sums")
        self._has_words = all(self._is_word(at, w, sums) for at in (self._x_word, self._out_map_word))

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
                self._move(self._x_word, x)
                self._move(self._out_map_word, out)
            words[self._out_word] = out
            self._config.stream = stream
            workspace.latest[self.rank] = self.problem, self._limit_s
            status = self._launch(self._how, self._function, self._pointers, None)
        if status:
            raise launch_error(self._product.launch.shape, status)

    def _move(self, word: int, address: int) -> None:
        """By the driver, which alone knows how a tensor map is made."""
        if status := self._replace(self._base + WORD * word, address):
            raise DeviceError(f"no tensor map for {address:#x}: {status_name(status)}")

    def _is_word(self, word: int, address: int, other: int) -> bool:
        """Whether a tensor map's first word is its address, so that storing it there is all it takes."""
        end = word + MAP_BYTES // WORD
        self._move(word, address)
        moved = self._words[word:end]
        self._move(word, other)
        self._words[word] = address
        return bool(self._words[word:end] == moved)

    def _pack(self, arguments: tuple[Any, ...]) -> None:
        """Both parameters, one behind the other, where tensor maps are aligned, and where addresses lie."""
        texts = [argument.tobytes() for argument in arguments]
        starts = [0, -(-len(texts[0]) // MAP_ALIGNMENT) * MAP_ALIGNMENT]
        size = starts[1] + len(texts[1])
        self._memory = (ctypes.c_char * (size + MAP_ALIGNMENT))()
        base = -(-ctypes.addressof(self._memory) // MAP_ALIGNMENT) * MAP_ALIGNMENT
        for start, text in zip(starts, texts, strict=True):
            ctypes.memmove(base + start, text, len(text))
        self._pointers = (c_void_p * 2)(*(base + start for start in starts))
        params, exchange = EXCHANGE_PARAMS.fields, EXCHANGE.fields
        assert params is not None
        assert exchange is not None
        self._base, c = base, starts[1] + params["c"][1]
        self._words = (ctypes.c_uint64 * (size // WORD)).from_address(base)
        self._x_word = (starts[1] + params["layer"][1]) // WORD  # A's map comes first
        self._out_map_word = (c + exchange["own_out"][1]) // WORD
        self._out_word = (c + exchange["out"][1]) // WORD
