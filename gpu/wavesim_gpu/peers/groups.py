"""The ranks that compute together: GPUs of one host, driven by one process or by a process each.

Example: `LocalPeers((0, 1))` drives both GPUs; in a process per GPU, `ProcessPeers(rank, count, exchange)`
drives one, and `exchange` hands CUDA's handles of its memory to the others (torch.distributed's
`all_gather_object`, or a pipe). Memory is mapped by `deviceEnablePeerAccess` or CUDA IPC. No multicast.

`LocalPeers((0, 0))` has two ranks on one GPU, each with half of its SMs, so that blocks of both are resident
together and may wait for each other. All then runs as among GPUs but the link: it is for tests where there is
one GPU. Processes that share a GPU have it in turns, whole milliseconds each; `ProcessPeers` takes that only
where it is told to.
"""

import socket
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from wavesim.errors import DescriptionError, DeviceError
from wavesim_gpu.driver.device import require_cupy
from wavesim_gpu.peers.layout import MAX_RANKS
from wavesim_gpu.peers.memory import PeerLayout, SharedMemory

PEER_ACCESS_IS_ON = 704  # cudaErrorPeerAccessAlreadyEnabled
# Takes this rank's object and returns those of all ranks, in their order: a collective call.
Exchange = Callable[[Any], Sequence[Any]]


class PeerGroup(ABC):
    """`rank_count` ranks, and those of them, `ranks`, that this process drives, each on a GPU of its own."""

    rank_count: int
    ranks: tuple[int, ...]

    def __init__(self) -> None:
        self._streams: dict[int, tuple[Any, Any]] = {}

    @abstractmethod
    def allocate(self, layout: PeerLayout) -> SharedMemory:
        """Zeroed memory of that layout on every rank. All processes call it, in one order."""

    @abstractmethod
    def barrier(self) -> None:
        """Until all ranks have come here and their GPUs have done all that was launched."""

    @contextmanager
    def on(self, rank: int) -> Iterator[Any]:
        """The rank's GPU is current within; gives CuPy."""
        cupy = require_cupy()
        with cupy.cuda.Device(self.device_of(rank)):
            yield cupy

    @abstractmethod
    def device_of(self, rank: int) -> int:
        """CUDA's number of the rank's GPU in this process."""

    def streams_of(self, rank: int) -> tuple[Any, Any]:
        """A rank's two streams, for its kernels and for copies beside them.

        All programs have these: with more streams than hardware queues, two would share one, and ranks on one
        GPU might wait for what stands behind them.
        """
        if rank not in self._streams:
            with self.on(rank) as cupy:
                self._streams[rank] = tuple(cupy.cuda.Stream(non_blocking=True) for _ in range(2))
        return self._streams[rank]

    def sharers_of(self, _rank: int) -> int:
        """How many ranks share out the SMs of the rank's GPU."""
        return 1


class LocalPeers(PeerGroup):
    """One process drives all GPUs, `devices` by rank; a GPU that is named twice is shared out.

    Raises `DeviceError` without peer access or with different models.
    """

    def __init__(self, devices: Sequence[int]) -> None:
        super().__init__()
        self._devices = tuple(devices)
        require_rank_count(len(self._devices))
        self.rank_count = len(self._devices)
        self.ranks = tuple(range(self.rank_count))
        self._kept: list[Any] = []
        cupy = require_cupy()
        present = int(cupy.cuda.runtime.getDeviceCount())
        if max(self._devices) >= present or min(self._devices) < 0:
            raise DeviceError(
                f"peers: devices are {list(self._devices)}; this machine has {present}, numbered "
                "from 0. Use those"
            )
        require_one_model([_model(cupy, device) for device in self._devices])
        self._enable(cupy)

    def device_of(self, rank: int) -> int:
        """CUDA's number of the rank's GPU."""
        return self._devices[rank]

    def sharers_of(self, rank: int) -> int:
        """How many ranks the rank's GPU is named for."""
        return self._devices.count(self._devices[rank])

    def allocate(self, layout: PeerLayout) -> SharedMemory:
        """Zeroed memory on every GPU; one address each, valid on all."""
        bases = []
        for rank in self.ranks:
            with self.on(rank) as cupy:
                memory = allocated(cupy, layout.bytes)
                self._kept.append(memory)
                bases.append(int(memory.ptr))
        return SharedMemory(layout, dict.fromkeys(self.ranks, bases))

    def barrier(self) -> None:
        """Until all GPUs have done all that was launched."""
        for rank in self.ranks:
            with self.on(rank) as cupy:
                cupy.cuda.Device().synchronize()

    def _enable(self, cupy: Any) -> None:
        for device in self._devices:
            for peer in self._devices:
                if peer != device:
                    require_access(cupy, device, peer)
                    with cupy.cuda.Device(device):
                        _enable_access(cupy, peer)


class ProcessPeers(PeerGroup):
    """A process per GPU: this one drives rank `rank` on its current GPU. `exchange` is collective.

    With `may_share`, processes may have one GPU, which the driver then gives to one after the other. Raises
    as `LocalPeers` does, on every rank alike.
    """

    def __init__(self, rank: int, rank_count: int, exchange: Exchange, *, may_share: bool = False) -> None:
        super().__init__()
        require_rank_count(rank_count)
        self.rank_count, self.ranks, self._exchange = rank_count, (rank,), exchange
        cupy = require_cupy()
        self._device = int(cupy.cuda.Device().id)
        told = exchange((_model(cupy, self._device), socket.gethostname(), cupy.cuda.Device().pci_bus_id))
        require_one_model([model for model, _, _ in told])
        if len({host for _, host, _ in told}) > 1:
            raise DeviceError(
                "peers: the ranks are on different hosts; tiles go over NVLink within one. Use a group "
                "per host"
            )
        if len({place for _, _, place in told}) < rank_count and not may_share:
            raise DeviceError(
                "peers: two ranks have one GPU; each needs its own. Call torch.cuda.set_device(local_rank) "
                "first"
            )
        self._kept: list[Any] = []

    def device_of(self, rank: int) -> int:
        """CUDA's number of this process's GPU."""
        assert rank in self.ranks, "another process drives it"
        return self._device

    def allocate(self, layout: PeerLayout) -> SharedMemory:
        """Zeroed memory on this GPU, and the others' mapped here."""
        (rank,) = self.ranks
        with self.on(rank) as cupy:
            memory = allocated(cupy, layout.bytes)
            self._kept.append(memory)
            handles = self._exchange((layout.bytes, cupy.cuda.runtime.ipcGetMemHandle(int(memory.ptr))))
            if len({size for size, _ in handles}) > 1:
                raise DescriptionError(
                    f"peers: the ranks ask for {[size for size, _ in handles]} bytes; all must make the same "
                    "call. Give every rank the same shapes"
                )
            bases, reason = [], ""
            try:
                for other, (_, handle) in enumerate(handles):
                    bases.append(int(memory.ptr) if other == rank else self._opened(cupy, handle, other))
            except DeviceError as error:
                reason = f"{error}"
        # Nobody stores before all have mapped, and all raise where one cannot.
        if reasons := [told for told in self._exchange(reason) if told]:
            raise DeviceError(reasons[0])
        return SharedMemory(layout, {rank: bases})

    def barrier(self) -> None:
        """Until all processes have come here."""
        with self.on(self.ranks[0]) as cupy:
            cupy.cuda.Device().synchronize()
        self._exchange(None)

    def _opened(self, cupy: Any, handle: bytes, other: int) -> int:
        try:
            return int(cupy.cuda.runtime.ipcOpenMemHandle(handle))
        except cupy.cuda.runtime.CUDARuntimeError as error:
            raise DeviceError(
                f"peers: rank {other}'s memory cannot be mapped ({error}); its GPU needs peer access to this "
                "one. `nvidia-smi topo -m` shows which GPUs have it"
            ) from error


def require_rank_count(count: int) -> None:
    """Raises `DescriptionError` for a group of one, or of too many."""
    if not 2 <= count <= MAX_RANKS:
        raise DescriptionError(
            f"peers: the group has {count} ranks; GPUs that compute together are 2 to {MAX_RANKS}."
            " With one GPU call the product alone"
        )


def require_one_model(models: Sequence[str]) -> None:
    """Raises `DeviceError` where the GPUs differ: tiles of one plan would wait for the slowest."""
    if len(set(models)) > 1:
        raise DeviceError(
            f"peers: the GPUs are {', '.join(models)}; all must be of one model. Leave out others"
        )


def require_access(cupy: Any, device: int, peer: int) -> None:
    """Raises `DeviceError` where one GPU cannot reach the other's memory."""
    if not cupy.cuda.runtime.deviceCanAccessPeer(device, peer):
        raise DeviceError(
            f"peers: GPU {device} has no peer access to GPU {peer}; tiles cannot go there. Use GPUs "
            "that NVLink joins (`nvidia-smi topo -m`), or NCCL"
        )


def allocated(cupy: Any, size: int) -> Any:
    """Zeroed memory of an allocation of its own: pieces of a pool cannot be handed to another process."""
    memory = cupy.cuda.MemoryPointer(cupy.cuda.Memory(size), 0)
    cupy.cuda.runtime.memset(int(memory.ptr), 0, size)
    cupy.cuda.Device().synchronize()
    return memory


def _enable_access(cupy: Any, peer: int) -> None:
    try:
        cupy.cuda.runtime.deviceEnablePeerAccess(peer)
    except cupy.cuda.runtime.CUDARuntimeError as error:
        if error.status != PEER_ACCESS_IS_ON:
            raise


def _model(cupy: Any, device: int) -> str:
    name = cupy.cuda.runtime.getDeviceProperties(device)["name"]
    return name.decode() if isinstance(name, bytes) else str(name)
