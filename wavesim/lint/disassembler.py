"""NVIDIA's disassembler, run on bytes of a cubin with limits of time, memory and output.

Example: `disassembly(cubin, "gemm.cubin")` is what nvdisasm prints of the code, with source lines where the
cubin has them. Before it stands a line for each kernel that says what the code does not: where its parameters
begin, their sizes, and which variables' addresses constant bank 4 holds.
"""

import importlib.util
import os
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

from wavesim.errors import DeviceError, RecordingError
from wavesim.lint.elf import Elf, attribute_lines
from wavesim.safe_io.bounded_process import Bounds, run_bounded
from wavesim.safe_io.escaping import one_line
from wavesim.safe_io.writing import write_bytes

MOST_SECONDS = 40
BOUNDS = Bounds(MOST_SECONDS, memory_bytes=900 << 20, output_bytes=400 << 20)


def nvdisasm() -> str:
    """Path of nvdisasm: of PATH, of CUDA_HOME or of its wheel. Raises `DeviceError` with the install line."""
    return program("nvdisasm")


def program(name: str) -> str:
    """Path of one of the CUDA binary utilities. Raises `DeviceError` where there is none."""
    if path := shutil.which(name):
        return path
    folders = [Path(os.environ[key]) / "bin" for key in ("CUDA_HOME", "CUDA_PATH") if os.environ.get(key)]
    spec = importlib.util.find_spec("nvidia")
    for wheel in spec.submodule_search_locations or [] if spec else []:
        folders += sorted(Path(wheel).glob("cu*/bin"), reverse=True)
    for folder in folders:
        if os.access(folder / name, os.X_OK):
            return str(folder / name)
    raise DeviceError(
        f"{name} is not installed, so this machine code can't be read (PTX can):"
        f" pip install nvidia-cuda-{name}, or install the CUDA toolkit"
    )


def disassembly(cubin: bytes, where: str) -> str:
    """The text of one cubin's code.

    Raises `RecordingError`: no cubin, damaged, or over the limits; `DeviceError`: no disassembler.
    """
    elf = Elf(cubin, where)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "code.cubin"
        write_bytes(path, elf.with_plain_names())
        text = run([nvdisasm(), "-c", "-g", str(path)], where)
    return "".join(f"{line}\n" for line in attribute_lines(elf)) + text


def run(words: Sequence[str], where: str, folder: str | None = None) -> str:
    """What a program prints, run in `folder`. Raises `RecordingError`: it fails, or goes over a limit."""
    name, ended = Path(words[0]).name, run_bounded(words, BOUNDS, folder=folder)
    if ended.status is None:
        raise RecordingError(
            f"{one_line(where)}: {name} took more than {BOUNDS.seconds} s; give fewer kernels in one file"
        )
    if ended.status:
        reason = one_line(ended.message.partition("\n")[0][:300]) or f"status {ended.status}"
        raise RecordingError(
            f"{one_line(where)}: {name} can't read it ({reason}): damaged, or newer than this {name}"
        )
    return ended.output.decode(errors="replace")
