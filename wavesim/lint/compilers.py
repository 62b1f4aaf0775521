"""CUDA C++ as PTX and machine code, by a compiler that is found by name, so that nothing here imports it.

Example: `compiled(Path("pair.cu"), "sm_90a")` is what the package `wavesim_gpu` makes of it with NVRTC, on a
machine without a GPU too.
"""

from collections.abc import Sequence
from importlib.metadata import entry_points
from pathlib import Path
from typing import Protocol

from wavesim.errors import DeviceError

COMPILER_GROUP = "wavesim.compilers"
SUFFIX = ".cu"


class SourceCompiler(Protocol):
    """What compiles a file for an architecture: an entry point of the group `wavesim.compilers`."""

    def __call__(
        self, path: Path, arch: str, instances: Sequence[str], folders: Sequence[Path]
    ) -> tuple[str, bytes]:
        """PTX and cubin, with source lines; `instances` are template instances wanted besides, by name."""


def compiled(
    path: Path, arch: str, instances: Sequence[str] = (), folders: Sequence[Path] = ()
) -> tuple[str, bytes]:
    """PTX and cubin of a file of CUDA C++, with source lines; `folders` are searched for its includes.

    Raises `DeviceError` where no compiler is installed, `CompileError` with its log, `DescriptionError`.
    """
    for entry in entry_points(group=COMPILER_GROUP):
        compiler: SourceCompiler = entry.load()
        return compiler(path, arch, instances, folders)
    raise DeviceError(
        f"{path.name} is CUDA C++, and no compiler is installed (entry point group {COMPILER_GROUP!r}); in a "
        "checkout run make setup, or compile it with nvcc -cubin -lineinfo and give the cubin"
    )
