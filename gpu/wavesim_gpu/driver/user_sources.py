"""A user's CUDA C++ compiled by NVRTC, with source lines, for what reads the code that comes out.

Example: `compile_user_source(Path("pair.cu"), "sm_90a", ["consume<128>"])` is PTX and a cubin of the kernels
in pair.cu and of that template instance. `wavesim lint pair.cu` finds it as an entry point.
"""

import importlib.util
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from wavesim.errors import CompileError, DescriptionError
from wavesim.safe_io.bounds import shown
from wavesim.safe_io.reading import read_text
from wavesim_gpu.driver.compiler import compile_text, supported_archs
from wavesim_gpu.driver.kernel_sources import ROOT, WAVESIM

MOST_BYTES = 4 << 20
ARCH = re.compile(r"sm_(\d{2,3})[af]?", re.ASCII)
DEVICE_CODE_ONLY = (
    "NVRTC compiles device code: put host code between #ifndef __CUDACC_RTC__ and #endif, or compile with "
    "nvcc -cubin -lineinfo and give the cubin"
)


def compile_user_source(
    path: Path, arch: str, instances: Sequence[str] = (), folders: Sequence[Path] = ()
) -> tuple[str, bytes]:
    """PTX and cubin of the file's kernels and of template `instances`, such as "consume<128>".

    Its own folder and `folders` are searched for includes, then ours and CUDA's; nothing is kept on disk.
    Raises `RecordingError`, `DescriptionError` for an architecture that NVRTC has not, `CompileError`.
    """
    text = read_text(path, MOST_BYTES)
    _require_known(arch)
    searched = [path.absolute().parent, *folders, ROOT, WAVESIM, *_cuda_folders()]
    options = (
        f"--gpu-architecture={arch}",
        "--std=c++17",
        "--device-as-default-execution-space",  # as our own kernels are compiled
        "--generate-line-info",
        *(f"-I{folder}" for folder in searched),
    )
    try:
        found = compile_text(path, text, tuple(instances), options)
    except CompileError as error:
        raise CompileError(f"{error}\n{DEVICE_CODE_ONLY}") from None
    return found.ptx, found.data


def _require_known(arch: str) -> None:
    found, known = ARCH.fullmatch(arch), supported_archs()
    if found is None or int(found[1]) not in known:
        names = ", ".join(f"sm_{number}" for number in known)
        raise DescriptionError(f"arch is {shown(arch)}; NVRTC compiles for {names}, with a or f behind some")


def _cuda_folders() -> list[Path]:
    """The include folders of CUDA's packages, where they are installed."""
    spec = importlib.util.find_spec("nvidia")
    places = spec.submodule_search_locations or [] if spec is not None else []
    return [folder for place in places for folder in sorted(Path(place).glob("cu*/include"))]


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
