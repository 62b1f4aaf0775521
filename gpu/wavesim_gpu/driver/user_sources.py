"""A user's CUDA C++ compiled by NVRTC, with source lines, for what reads the code that comes out.

Example: `compile_user_source(Path("pair.cu"), "sm_90a", ["consume<128>"])` is PTX and a cubin of the kernels
in pair.cu and of that template instance. `wavesim lint pair.cu` finds it as an entry point. The compiler runs
in a process of its own: it has bounds of time and memory, opens no file outside of the folders that it may
search, and what it says names lines and no file's content.
"""

import base64
import importlib.util
import json
import os
import re
import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from wavesim.errors import CompileError, DescriptionError
from wavesim.safe_io.bounded_process import Bounds, open_only, run_bounded
from wavesim.safe_io.bounds import real, shown
from wavesim.safe_io.documents import json_value
from wavesim.safe_io.escaping import one_line
from wavesim.safe_io.reading import read_text
from wavesim_gpu.driver.compiler import NotCompiledError, compile_text, supported_archs
from wavesim_gpu.driver.kernel_sources import ROOT, WAVESIM

MOST_BYTES = 4 << 20
SECONDS = 10
BYTES_PER_SECOND, MOST_MEMORY = 100 << 20, 8 << 30  # of addresses: 1 GB in the usual time
MOST_OUTPUT = 256 << 20
MOST_MESSAGES = 20
ARCH = re.compile(r"sm_(\d{2,3})[af]?", re.ASCII)
DIAGNOSTIC = re.compile(r"(?P<file>[^\n]+)\((?P<line>\d+)\): (?P<what>(?:catastrophic )?error[^\n]*)")
ASSEMBLER = re.compile(r"^ptxas [^\n]*?error\s*: (?P<what>[^\n]*)", re.MULTILINE)
GRID_CALLS = re.compile(r"\bcuda(GridDependencySynchronize|TriggerProgrammaticLaunchCompletion)\b")
DEVICE_RUNTIME = ("--pre-include=cuda_device_runtime_api.h",)  # nvcc includes it by itself
DEVICE_CODE_ONLY = (
    "NVRTC compiles device code: put host code between #ifndef __CUDACC_RTC__ and #endif, or compile with "
    "nvcc -cubin -lineinfo and give the cubin"
)


def compile_user_source(
    path: Path,
    arch: str,
    instances: Sequence[str] = (),
    folders: Sequence[Path] = (),
    seconds: float = SECONDS,
    defines: Sequence[str] = (),
) -> tuple[str, bytes]:
    """PTX and cubin of the file's kernels and of template `instances`, such as "consume<128>".

    Its own folder and `folders` are searched for includes, then ours, CUDA's and its C++ library's; `defines`
    are macros, such as "TILE=64". Nothing is kept on disk.
    Raises `RecordingError`, `DescriptionError` for an architecture that NVRTC has not, `CompileError`, also
    where it takes more than `seconds`.
    """
    text = read_text(path, MOST_BYTES)
    _require_known(arch)
    seconds = real("compile-seconds", seconds, 0.1, 3_600)
    searched = [path.absolute().parent, *folders, ROOT, WAVESIM, *cuda_folders()]
    wanted = {
        "name": path.name, "text": text, "arch": arch,
        "instances": list(instances), "folders": [str(folder) for folder in searched],
        "defines": list(defines),
    }  # fmt: skip
    memory = min(MOST_MEMORY, int(seconds * BYTES_PER_SECOND))
    ended = run_bounded(
        # Without -P the working folder's modules would come first.
        [sys.executable, "-P", "-m", "wavesim_gpu.driver.user_sources"],
        Bounds(seconds, memory, MOST_OUTPUT),
        given=json.dumps(wanted).encode(),
        environment=os.environ
        | {"PYTHONPATH": os.pathsep.join(folder or str(Path.cwd()) for folder in sys.path)},
    )
    answer = json_value(ended.output, path.name) if ended.status == 0 else {}
    log = answer.get("log", "")
    if not answer or "catastrophic error: out of memory" in log:
        took = (
            f"more than {seconds:g} s" if ended.status is None else f"more than {memory:,} bytes, or crashed"
        )
        raise CompileError(
            f"{path.name}: compiling it takes {took}; allow more with --compile-seconds, or compile it with "
            "nvcc -cubin -lineinfo and give the cubin"
        )
    if log:
        said = "\n".join(_said(log, path, searched)) or "the compiler does not say why"
        raise CompileError(f"{path.name} does not compile:\n{said}\n{DEVICE_CODE_ONLY}")
    return answer["ptx"], base64.b64decode(answer["cubin"])


def _said(log: str, path: Path, folders: Sequence[Path]) -> Iterator[str]:
    """Errors in files that may be read, by their places and without the line, and the assembler's."""
    for what in list(dict.fromkeys(ASSEMBLER.findall(log)))[:MOST_MESSAGES]:
        yield one_line(f"{path.name}, assembled: {what}", 300)
    roots = [os.path.realpath(folder) for folder in folders]
    for number, match in enumerate(DIAGNOSTIC.finditer(log)):
        file = match["file"].strip()
        real = os.path.realpath(file)
        if file != path.name and not any(os.path.commonpath((root, real)) == root for root in roots):
            yield "an error in a file outside of the folders that are searched for includes (--include)"
        else:
            yield one_line(f"{file}({match['line']}): {match['what']}", 300)
        if number + 1 == MOST_MESSAGES:
            return


def _compile_given() -> None:
    """In the process of its own: a request from standard input, the answer to standard output."""
    wanted = json.load(sys.stdin)
    target, folders = f"--gpu-architecture={wanted['arch']}", wanted["folders"]
    compile_text(Path("empty.cu"), "", (), (target,))  # loads all that the compiler needs of its own
    open_only(map(Path, folders))
    options = (
        target,
        "--std=c++17",
        "--device-as-default-execution-space",  # as our own kernels are compiled
        "--generate-line-info",
        *(f"-I{folder}" for folder in folders),
        *(f"-D{define}" for define in wanted["defines"]),
        *(DEVICE_RUNTIME if GRID_CALLS.search(wanted["text"]) else ()),
    )
    try:
        made = compile_text(Path(wanted["name"]), wanted["text"], tuple(wanted["instances"]), options)
    except NotCompiledError as error:
        answer = {"log": error.log[:MOST_BYTES] or "error"}
    else:
        answer = {"ptx": made.ptx, "cubin": base64.b64encode(made.data).decode()}
    sys.stdout.write(json.dumps(answer))


def _require_known(arch: str) -> None:
    result, known = ARCH.fullmatch(arch), supported_archs()
    if result is None or int(result[1]) not in known:
        names = ", ".join(f"sm_{number}" for number in known)
        raise DescriptionError(f"arch is {shown(arch)}; NVRTC compiles for {names}, with a or f behind some")


def cuda_folders() -> list[Path]:
    """The include folders of CUDA and of CCCL, of packages and of the toolkit, where they are installed."""
    spec = importlib.util.find_spec("nvidia")
    places = [Path(place) for place in (spec.submodule_search_locations or [] if spec is not None else [])]
    folders = [folder for place in places for folder in sorted(place.glob("cu*/include"))]
    homes = [os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), "/usr/local/cuda"]
    if nvcc := shutil.which("nvcc"):
        homes.append(str(Path(nvcc).resolve().parents[1]))
    folders += [Path(home).resolve() / "include" for home in homes if home]
    folders = [folder for folder in dict.fromkeys(folders) if (folder / "cuda.h").is_file()]
    return [each for folder in folders for each in (folder, folder / "cccl") if each.is_dir()]


if __name__ == "__main__":
    _compile_given()
