"""Kernels that launch kernels: compiled apart and linked with CUDA's device runtime by nvcc.

Example: `linked_cubin(Path("device_launch.cu"), "sm_90a")` is machine code that a module loads as any other.
NVRTC compiles such a file too, but only a linker adds libcudadevrt.
"""

import shutil
import subprocess
import tempfile
from pathlib import Path

from wavesim.errors import CompileError

NVCC_PLACES = ("nvcc", "/usr/local/cuda/bin/nvcc")


def find_nvcc() -> str:
    """The nvcc on the PATH, or where CUDA installs it. Raises `CompileError`."""
    for place in NVCC_PLACES:
        if found := shutil.which(place):
            return found
    raise CompileError("nvcc is not on the PATH: launches from the device need it; install the CUDA toolkit")


def linked_cubin(path: Path, arch: str) -> bytes:
    """Machine code of a file for an architecture, with the device runtime. Raises `CompileError`."""
    nvcc = find_nvcc()
    with tempfile.TemporaryDirectory() as folder:
        compiled, linked = Path(folder, "compiled.o"), Path(folder, "linked.cubin")
        target = f"-arch={arch}"
        _run(path, [nvcc, "-std=c++17", target, "-dc", str(path), "-o", str(compiled)])
        link = ["-dlink", "-cubin", str(compiled), "-o", str(linked), "-lcudadevrt"]
        _run(path, [nvcc, target, *link])
        return linked.read_bytes()


def _run(path: Path, words: list[str]) -> None:
    done = subprocess.run(words, capture_output=True, text=True, check=False)  # noqa: S603  # our own words
    if done.returncode != 0:
        raise CompileError(f"{path.name} does not compile or link:\n{done.stderr}")
