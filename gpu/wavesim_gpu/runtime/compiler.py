"""Compiles our CUDA C++ at run time, with NVRTC: for the GPU at hand or, with no GPU at all, for any target.

Example: a `Build` says recording or timing; `compile_cubin` turns one `.cu` file and the names of the
template instances wanted into machine code, once: results are kept on disk under a key made of all our
sources, the options and the compiler's version, so an edited header is never served stale.
"""

import hashlib
import json
import re
import shutil
import tempfile
import threading
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import wavesim.codegen
from wavesim.codegen.single_stage import stage_header
from wavesim.errors import CompileError
from wavesim.model.dependency import gemm_rows
from wavesim.model.kernel import Gemm
from wavesim.model.pipeline import Pipeline
from wavesim.model.stage import Stage
from wavesim.plan.order import Grouped
from wavesim.plan.plan import SemaphoreSync
from wavesim.plan.policy import RowSync, TileSync

ROOT = Path(__file__).parents[1]
WAVESIM = Path(wavesim.codegen.__file__).parents[2]  # <wavesim/codegen/semaphore.cuh> is found from here
PORTABLE = ROOT / "kernels" / "sm80" / "gemm.cu"
INCLUDE = re.compile(r"^#include <([\w/.]+)>", re.MULTILINE)
COMMENT = re.compile(r" *//.*")
MUTANTS = ("none", "no_wait", "no_post", "no_fence", "early_post")
INSTALL = "in a checkout: .venv/bin/pip install -e '.[nvrtc]' (or: cuda-bindings and nvidia-cuda-nvrtc)"
CACHE = Path.home() / ".cache" / "wavesim" / "cubin"
_lock = threading.Lock()


@dataclass(frozen=True)
class Build:
    """How kernels are built: with per-block recording or without; broken on purpose, for tests.

    `delay_ns`, times one more than the tile's column, is slept by producers between work and stores.
    """

    is_recording: bool = False
    mutant: str = "none"
    delay_ns: int = 0

    @property
    def defines(self) -> tuple[str, ...]:
        """The compiler options that say so."""
        return (
            f"-DWAVESIM_RECORD={int(self.is_recording)}",
            f"-DCUSYNC_MUTANT={MUTANTS.index(self.mutant)}",
            f"-DCUSYNC_DELAY_NS={self.delay_ns}",
        )


@dataclass(frozen=True)
class Cubin:
    """Machine code for one target, and the mangled name of each requested template instance."""

    data: bytes
    lowered: Mapping[str, str]
    ptx: str


def sources(path: Path) -> tuple[Path, ...]:
    """A source file and all of ours that it includes, sorted; not the generated header."""
    found = {path}
    waiting = [path]
    while waiting:
        for name in INCLUDE.findall(waiting.pop().read_text()):
            header = next((root / name for root in (ROOT, WAVESIM) if (root / name).is_file()), None)
            if header is not None and header not in found:
                found.add(header)
                waiting.append(header)
    return tuple(sorted(found))


@cache
def source_hash(*paths: Path) -> str:
    """Sixteen hex digits over the files of kernels, names and contents, by default the portable GEMM's.

    Other kernels' files do not change it. What the generator writes counts too, comments aside, as for a
    pair of GEMMs in grouped order under row and tile semaphores.
    """
    digest = hashlib.sha256()
    for file in sorted({file for path in paths or (PORTABLE,) for file in sources(path)}):
        digest.update(file.name.encode() + b"\0" + file.read_bytes() + b"\0")
    digest.update(COMMENT.sub("", "".join(_sample_headers())).encode())
    return digest.hexdigest()[:16]


def _sample_headers() -> Iterator[str]:
    first, second = (Stage(name, Gemm(name, 128, 128, 128, 64, 64)) for name in ("gemm1", "gemm2"))
    pipeline = Pipeline("pair", [first, second], [gemm_rows(first, second)])
    for plan in (SemaphoreSync(RowSync(), order=Grouped(8)), SemaphoreSync(TileSync())):
        yield from (stage_header(pipeline, plan, stage.name).text for stage in pipeline.stages)


def compile_cubin(
    path: Path,
    names: Iterable[str],
    arch: str,
    build: Build | None = None,
    headers: Mapping[str, str] | None = None,
) -> Cubin:
    """The file compiled for `arch`, such as "sm_90a", with template instances `names`.

    `headers` are includes that exist in memory only, such as {"generated.cuh": text}. Safe to call from
    several threads. Raises `CompileError`: NVRTC missing, or the compiler's log with numbered source lines.
    """
    names, given = tuple(names), dict(headers or {})
    nvrtc = _nvrtc()
    flags = (
        "--std=c++17",
        "--device-as-default-execution-space",
    )  # the second lets lambdas run on the device
    options = (f"--gpu-architecture={arch}", f"-I{ROOT}", f"-I{WAVESIM}", *flags, *(build or Build()).defines)
    # All that is read goes into the key: no cache between here and the driver may ignore a header.
    read = [(file.name, file.read_text()) for file in sources(path)] + sorted(given.items())
    version = ".".join(str(part) for part in nvrtc.nvrtcVersion()[1:])
    key = hashlib.sha256(json.dumps([read, names, options[0], options[3:], version]).encode()).hexdigest()[
        :32
    ]
    kept = _read_kept(key)
    if kept is None:
        text = f"// sources {key}\n#line 1\n{path.read_text()}"
        kept = _compile(nvrtc, path, text, names, options, given)
        _keep(key, kept)
    return kept


def _nvrtc() -> ModuleType:
    try:
        from cuda.bindings import nvrtc  # noqa: PLC0415  # an optional package, named in the error
    except ImportError as error:
        raise CompileError(f"NVRTC is not installed ({error}); {INSTALL}") from error
    try:
        nvrtc.nvrtcVersion()
    except Exception as error:  # a missing shared library surfaces under several types
        raise CompileError(f"NVRTC cannot be loaded ({error}); {INSTALL}") from error
    return nvrtc


def _compile(
    nvrtc: Any,
    path: Path,
    text: str,
    names: tuple[str, ...],
    options: tuple[str, ...],
    headers: Mapping[str, str],
) -> Cubin:
    texts, includes = ([word.encode() for word in words] for words in (headers.values(), headers))
    _, program = nvrtc.nvrtcCreateProgram(text.encode(), path.name.encode(), len(headers), texts, includes)
    try:
        for name in names:
            nvrtc.nvrtcAddNameExpression(program, name.encode())
        (status,) = nvrtc.nvrtcCompileProgram(program, len(options), [option.encode() for option in options])
        if int(status) != 0:
            raise CompileError(_explained(path, _log(nvrtc, program), path.read_text(), headers))
        lowered = {name: nvrtc.nvrtcGetLoweredName(program, name.encode())[1].decode() for name in names}
        cubin = _fetched(nvrtc.nvrtcGetCUBINSize, nvrtc.nvrtcGetCUBIN, program)
        ptx = _fetched(nvrtc.nvrtcGetPTXSize, nvrtc.nvrtcGetPTX, program)
    finally:
        nvrtc.nvrtcDestroyProgram(program)
    return Cubin(cubin, lowered, ptx.rstrip(b"\0").decode())


def _fetched(size_of: Any, fetch: Any, program: Any) -> bytes:
    data = b" " * size_of(program)[1]
    fetch(program, data)
    return data


def _log(nvrtc: Any, program: Any) -> str:
    return _fetched(nvrtc.nvrtcGetProgramLogSize, nvrtc.nvrtcGetProgramLog, program).rstrip(b"\0 ").decode()


def _explained(path: Path, log: str, text: str, headers: Mapping[str, str]) -> str:
    """The log, then the sources with numbered lines."""
    listings = [
        "\n".join(f"{number:4d} | {line}" for number, line in enumerate(source.splitlines(), 1))
        for source in (text, *headers.values())
    ]
    return f"{path.name} does not compile:\n{log}\n\n" + "\n\n".join(listings)


def _read_kept(key: str) -> Cubin | None:
    entry = CACHE / key
    try:
        lowered = json.loads((entry / "names.json").read_text())
        return Cubin((entry / "code.cubin").read_bytes(), lowered, (entry / "code.ptx").read_text())
    except (OSError, ValueError):
        return None


def _keep(key: str, cubin: Cubin) -> None:
    """Written beside and renamed into place, so that a reader never sees half an entry."""
    try:
        CACHE.mkdir(parents=True, exist_ok=True)
        draft = Path(tempfile.mkdtemp(dir=CACHE))
        (draft / "names.json").write_text(json.dumps(dict(cubin.lowered)))
        (draft / "code.cubin").write_bytes(cubin.data)
        (draft / "code.ptx").write_text(cubin.ptx)
        with _lock:
            if (CACHE / key).exists():
                shutil.rmtree(draft)
            else:
                draft.rename(CACHE / key)
    except OSError:
        return  # a read-only home only costs the next process its compile time
