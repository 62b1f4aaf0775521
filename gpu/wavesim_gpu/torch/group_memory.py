"""What the layers of one process group share on a GPU: peers, workspaces, symmetric memory, streams.

Example: `memory.workspace(bytes, tiles)` is the same for all layers that fit, made by all ranks together;
`memory.agree(make)` is what `make` gives where it does on all ranks, and else a reason on all.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from wavesim.errors import WavesimError
from wavesim_gpu.cublas.cublas_library import workspace_bytes
from wavesim_gpu.driver.device import require_cupy
from wavesim_gpu.peers.choice import LinearShape
from wavesim_gpu.peers.groups import PeerGroup, ProcessPeers
from wavesim_gpu.peers.sends import ANY_DIRECTION
from wavesim_gpu.peers.workspace import Workspace, workspace_size
from wavesim_gpu.torch.layer_product import LayerProduct

Algorithms = tuple[str, str]
UNTIMED: Algorithms = "", ""
DTYPES_OF = {"fp16": torch.float16, "bf16": torch.bfloat16}
LEAST_SHARED = 1 << 20  # elements of symmetric memory


@dataclass
class GroupMemory:
    """What the layers of one group share: the peers, a workspace per size, symmetric memory, the stream of
    the call before.
    """

    group: Any
    device: torch.device
    peers: PeerGroup | None = None
    workspaces: dict[tuple[int, int], Workspace] = field(default_factory=dict)
    shared: dict[tuple[int, torch.dtype], Tensor] = field(default_factory=dict)
    # cuBLASLt's, where they were timed: of the whole GEMM, and of half of its rows.
    algorithms: dict[LinearShape, Algorithms] = field(default_factory=dict)
    latest: int = -1
    _latest_stream: Any = None
    _scratch: Tensor | None = None  # cuBLASLt's
    _beside: Any = None  # the copy engine's stream
    _outputs: dict[torch.dtype, Tensor] = field(default_factory=dict)  # few outputs are like these

    @property
    def rank(self) -> int:
        """Of this process in the group."""
        return int(dist.get_rank(self.group))

    def exchange(self, mine: Any) -> list[Any]:
        """Every rank's object, in their order."""
        told = [None] * dist.get_world_size(self.group)
        dist.all_gather_object(told, mine, group=self.group)
        return told

    def agree(self, make: Callable[[], Any]) -> tuple[Any, str]:
        """What `make` gives where it does on all ranks; else None and the first rank's reason."""
        made, reason = None, ""
        try:
            made = make()
        except (WavesimError, RuntimeError, AttributeError, ImportError, ValueError) as error:
            reason = f"{error}" or type(error).__name__
        reasons = [told for told in self.exchange(reason) if told]
        return (None, reasons[0]) if reasons else (made, "")

    def met(self) -> PeerGroup:
        """The peers. Raises `DeviceError` on all ranks alike where they cannot reach each other."""
        if self.peers is None:
            torch.cuda.set_device(self.device)
            self.peers = ProcessPeers(self.rank, dist.get_world_size(self.group), self.exchange)
        return self.peers

    def workspace(self, output_bytes: int, tiles: int) -> Workspace:
        """That of the size."""
        size = workspace_size(output_bytes, tiles)
        if size not in self.workspaces:
            self.workspaces[size] = Workspace(self.met(), size)
        return self.workspaces[size]

    def product(
        self, shape: LinearShape, w: Tensor, bias: Tensor | None, algorithm: str = ""
    ) -> LayerProduct:
        """A layer's GEMM. Raises `DeviceError`."""
        self.met()
        if self._scratch is None:
            self._scratch = torch.empty(workspace_bytes(), dtype=torch.uint8, device=self.device)
        return LayerProduct(shape, self._scratch.data_ptr(), w, bias, algorithm)

    def empty_of(self, shape: LinearShape) -> Callable[[], Tensor]:
        """Allocates a layer's outputs: few of them like others, which takes the host less than by sizes."""
        size, dtype, device = (shape.m, shape.n), DTYPES_OF[shape.dtype], self.device
        if shape.m * shape.n > LEAST_SHARED:
            return partial(torch.empty, size, dtype=dtype, device=device)
        if dtype not in self._outputs:
            self._outputs[dtype] = torch.empty(LEAST_SHARED, dtype=dtype, device=device)
        return partial(torch.empty_like, self._outputs[dtype][: shape.m * shape.n].view(size))

    def symmetric(self, elements: int, dtype: torch.dtype) -> Tensor:
        """Memory that all ranks see, by PyTorch: at least so many elements."""
        import torch.distributed._symmetric_memory as symmetric  # noqa: PLC0415  # not in every build

        key = max(LEAST_SHARED, 1 << (elements - 1).bit_length()), dtype
        if key not in self.shared:
            made = symmetric.empty(key[0], dtype=dtype, device=self.device)
            symmetric.rendezvous(made, self.group.group_name)
            self.shared[key] = made
        return self.shared[key]

    @contextmanager
    def copy_beside(self, there: int, here: int, size: int) -> Iterator[None]:
        """The copy engine stores bytes elsewhere, after what is on the current stream and beside what is put
        on it within; what comes after waits for both.
        """
        current = torch.cuda.current_stream(self.device)
        if self._beside is None:
            self._beside = torch.cuda.Stream(self.device)
        self._beside.wait_stream(current)
        require_cupy().cuda.runtime.memcpyAsync(there, here, size, ANY_DIRECTION, self._beside.cuda_stream)
        yield
        current.wait_stream(self._beside)

    def follow(self, stream: int) -> None:
        """The current stream's next call comes after the calls of the stream before, whose memory it uses."""
        if torch.cuda.is_current_stream_capturing():
            return  # the graph's order is the caller's
        current = torch.cuda.current_stream(self.device)
        if self._latest_stream is not None:
            current.wait_stream(self._latest_stream)
        self.latest, self._latest_stream = stream, current
