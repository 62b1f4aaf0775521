"""What the prepared calls of a group share, and a launch whose parameters lie ready.

Example: `PreparedLaunch(launch)` packs a kernel's parameters once; a call stores an address or two into
them and launches, in a few microseconds. Layers of all shapes that fit share a `Workspace`, and a call that
gave up is told by the next of any.
"""

import ctypes
import threading
from ctypes import c_void_p
from typing import Any

import numpy as np

from wavesim.errors import DeviceError
from wavesim_gpu.driver.driver_api import require_driver, status_name
from wavesim_gpu.driver.kernel_launch import DeviceLaunch, launch_config, launch_error
from wavesim_gpu.peers.groups import PeerGroup
from wavesim_gpu.peers.layout import ERRORS
from wavesim_gpu.peers.regions import exchange_layout, failure

LEAST_BYTES, LEAST_TILES = 4 << 20, 1024
PARAMETER_ALIGNMENT, WORD = 64, 8  # of tensor maps; bytes of an address
MAP_BYTES, MAP_STEP = 128, 4096  # of a tensor map; how far another one's address is
HOST_TO_DEVICE, DEVICE_TO_HOST = 1, 2  # cudaMemcpyKind


def workspace_size(output_bytes: int, tiles: int) -> tuple[int, int]:
    """Bytes of outputs and tiles, or parts, of the workspace that a layer shares: powers of two."""
    return max(LEAST_BYTES, _power_of_two(output_bytes)), max(LEAST_TILES, _power_of_two(tiles))


def _power_of_two(least: int) -> int:
    return 1 << (least - 1).bit_length()


class Workspace:
    """Memory that both ranks' calls share, of one group, and what tells the host of a wait that gave up.

    It is kept as long as the process lives: a captured graph may still use it when its group is gone. Making
    one is a collective call. `lock` is held by whoever launches.
    """

    def __init__(self, group: PeerGroup, size: tuple[int, int]) -> None:
        self.group, self.lock = group, threading.Lock()
        self.memory = group.allocate(exchange_layout(*size, group.rank_count))
        self.latest: dict[int, tuple[Any, float]] = {}  # by rank: what was launched, its limit
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


class PreparedLaunch:
    """A kernel's parameters, one behind the other, and how it is launched.

    `words` are the parameters as 64-bit words, for a call to store addresses in; `starts` says at which byte
    each parameter begins, `base` where they lie. The GPU must be current.
    """

    def __init__(self, launch: DeviceLaunch) -> None:
        texts = [argument.tobytes() for argument in launch.arguments]
        self.starts, size = [], 0
        for text in texts:
            size = -(-size // PARAMETER_ALIGNMENT) * PARAMETER_ALIGNMENT
            self.starts.append(size)
            size += len(text)
        self._memory = (ctypes.c_char * (size + PARAMETER_ALIGNMENT))()
        at = ctypes.addressof(self._memory)
        self.base = -(-at // PARAMETER_ALIGNMENT) * PARAMETER_ALIGNMENT
        for start, text in zip(self.starts, texts, strict=True):
            ctypes.memmove(self.base + start, text, len(text))
        self._pointers = (c_void_p * len(texts))(*(self.base + start for start in self.starts))
        self.words = (ctypes.c_uint64 * (size // WORD)).from_address(self.base)
        self._shape, self._config = launch.shape, launch_config(launch.shape, 0)
        self._how, self._function = ctypes.byref(self._config), c_void_p(int(launch.function.function.ptr))
        driver = require_driver()
        self._launch, self._replace = driver.cuLaunchKernelEx, driver.cuTensorMapReplaceAddress

    def move_map(self, word: int, address: int) -> None:
        """The tensor map that begins there gets another address, by the driver. Raises `DeviceError`."""
        if status := self._replace(self.base + WORD * word, address):
            raise DeviceError(f"no tensor map for {address:#x}: {status_name(status)}")

    def has_plain_map(self, word: int, address: int) -> bool:
        """Whether a tensor map's first word is its address, so that storing it there is all it takes."""
        end = word + MAP_BYTES // WORD
        self.move_map(word, address)
        moved = self.words[word:end]
        self.move_map(word, address + MAP_STEP)
        self.words[word] = address
        return bool(self.words[word:end] == moved)

    def start(self, stream: int) -> None:
        """Launches it with the parameters as they are now. Raises `DeviceError` with the driver's word."""
        self._config.stream = stream
        if status := self._launch(self._how, self._function, self._pointers, None):
            raise launch_error(self._shape, status)
