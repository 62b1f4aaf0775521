"""Compiles our CUDA C++ at run time, with NVRTC: for the GPU at hand or, with no GPU at all, for any target.

Example: a `Build` says recording or timing; `compile_cubin` turns one `.cu` file and the names of the
template instances wanted into machine code, once: results are kept on disk under a key made of all our
sources, the options and the compiler's version, so an edited header is never served stale.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from wavesim.errors import CompileError
from wavesim_gpu.driver import cubin_cache
from wavesim_gpu.driver.cubin_cache import Cubin
from wavesim_gpu.driver.kernel_sources import ROOT, WAVESIM, sources

MUTANTS = ("none", "no_wait", "no_post", "no_fence", "early_post")
INSTALL = "in a checkout: .venv/bin/pip install -e '.[nvrtc]' (or: cuda-bindings and nvidia-cuda-nvrtc)"


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


class NotCompiledError(CompileError):
    """What the compiler says of a source, `log`, with the lines that it says it of."""

    def __init__(self, path: Path, log: str) -> None:
        super().__init__(f"{path.name} does not compile:\n{log}")
        self.log = log


@dataclass(frozen=True)
class Request:
    """What one compilation takes: a file, the template instances wanted, options, headers in memory.

    `key` is a hash of these, of every file of ours that is read and of the compiler's version.
    """

    path: Path
    names: tuple[str, ...]
    options: tuple[str, ...]
    headers: Mapping[str, str]
    key: str


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
    request = _request(path, tuple(names), arch, build or Build(), dict(headers or {}))
    return cubin_cache.read(request.key) or build_and_keep(request)


def _request(path: Path, names: tuple[str, ...], arch: str, build: Build, headers: dict[str, str]) -> Request:
    # The last flag lets lambdas run on the device.
    flags = ("--std=c++17", "--device-as-default-execution-space", *build.defines)
    # All that is read goes into the key: no cache between here and the driver may ignore a header. Folders do
    # not, so that a cache can be carried to another machine.
    read = sorted((file.name, file.read_text()) for file in sources(path)) + sorted(headers.items())
    version = ".".join(str(part) for part in _nvrtc().nvrtcVersion()[1:])
    target = f"--gpu-architecture={arch}"
    key = hashlib.sha256(json.dumps([read, names, target, flags, version]).encode()).hexdigest()[:32]
    return Request(path, names, (target, f"-I{ROOT}", f"-I{WAVESIM}", *flags), headers, key)


def build_and_keep(request: Request) -> Cubin:
    """Compiles it and keeps the result in the cache. Raises `CompileError`."""
    text = f"// sources {request.key}\n#line 1\n{request.path.read_text()}"
    try:
        cubin = _compile(_nvrtc(), request.path, text, request.names, request.options, request.headers)
    except NotCompiledError as error:
        listed = _explained(request.path, error.log, request.path.read_text(), request.headers)
        raise CompileError(listed) from None
    cubin_cache.keep(request.key, cubin)
    return cubin


def compile_text(path: Path, text: str, names: tuple[str, ...], options: tuple[str, ...]) -> Cubin:
    """A file's text compiled with NVRTC's `options`, and not kept: whose headers change no key knows of.

    Raises `NotCompiledError`, or `CompileError` where there is no compiler.
    """
    return _compile(_nvrtc(), path, text, names, options, {})


def supported_archs() -> tuple[int, ...]:
    """The architectures that NVRTC compiles for, as numbers: 90 is sm_90. Raises `CompileError`."""
    return tuple(_nvrtc().nvrtcGetSupportedArchs()[1])


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
            raise NotCompiledError(path, _log(nvrtc, program))
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
