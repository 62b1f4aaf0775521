"""What the runner asks of a family of kernels, so that it knows none of them.

Example: `family.launch(gemm, device)` says which template instance computes a GEMM, with how many threads and
blocks; `family.arguments(gemm, addresses)` are its parameters after `cusync::StageParams`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from wavesim.model.device import Device
from wavesim.model.kernel import Gemm
from wavesim.model.pipeline import Pipeline


@dataclass(frozen=True)
class Addresses:
    """Where a GEMM's operands are on the device; `partials` and `tickets` only with split-K, else 0."""

    a: int
    b: int
    c: int
    partials: int
    tickets: int


@dataclass(frozen=True)
class KernelLaunch:
    """How one GEMM is launched.

    `expression` is the template instance or the name, `blocks` the one-dimensional grid: one per tile and
    slice, or fewer for a persistent kernel. `cluster` blocks form a cluster; `is_dependent` starts the kernel
    before the one ahead of it in its stream has ended (programmatic dependent launch).
    """

    expression: str
    threads: int
    dynamic_shared_bytes: int
    blocks: int
    cluster: int = 1
    is_dependent: bool = False


class Family(Protocol):
    """Kernels of one source file, which includes the generated header as <generated.cuh>."""

    @property
    def name(self) -> str:
        """What `CupyRunner(kernels=...)` calls it."""

    @property
    def source(self) -> Path:
        """The .cu file."""

    @property
    def is_persistent(self) -> bool:
        """Whether a block computes tile after tile; such blocks always draw their positions."""

    @property
    def is_dependent(self) -> bool:
        """Whether a kernel may start once all blocks of the one before have, on the same stream."""

    @property
    def takes_semaphores(self) -> bool:
        """Whether its tiles can wait and post."""

    def check(self, gemm: Gemm) -> None:
        """Raises `DescriptionError`, with the fix, for a GEMM that it cannot compute."""

    def launch(self, gemm: Gemm, device: Device) -> KernelLaunch:
        """How to launch it. Raises as `check` does."""

    def arguments(self, gemm: Gemm, addresses: Addresses) -> tuple[Any, ...]:
        """NumPy scalars or records: the kernel's parameters after the first."""

    def partial_bytes(self, gemm: Gemm) -> int:
        """Bytes of fp32 partial sums that split-K keeps; 0 without it."""


class Joint(Protocol):
    """One persistent kernel for a whole pipeline, of a family's source file and with the family's arguments.

    Its <generated.cuh> has the header of each stage in a namespace of its own, by `SPACES`.
    """

    def launch(self, pipeline: Pipeline, device: Device) -> KernelLaunch:
        """How to launch it. Raises `DescriptionError`, with the fix, for a pipeline it cannot compute."""


SPACES = ("first", "second")

Families = Mapping[str, Family]
