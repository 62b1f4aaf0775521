"""The kernels that a program loads, each with delays in it, and the table by which a run sets these.

Example: within `Delays(cupy).watching()` a file's `cupy.RawKernel`, `cupy.RawModule` and wavesim's own
`load_function` load rewritten code; `delays.set(Disturbance(seed=7, ...))` disturbs the runs that follow.
"""

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from wavesim.errors import CompileError, DescriptionError
from wavesim_gpu.driver.compiler import NotCompiledError, compile_text
from wavesim_gpu.driver.cubin_cache import Cubin
from wavesim_gpu.driver.device import architecture, query
from wavesim_gpu.driver.functions import loaded_module, loading_with
from wavesim_gpu.driver.user_sources import DEVICE_RUNTIME, GRID_CALLS, cuda_folders
from wavesim_gpu.shake.ptx_delays import DelayedPtx, Site, with_delays
from wavesim_gpu.shake.ptx_snippets import (
    ARRAY_WORDS,
    HEAD_WORDS,
    MOST_ARRAYS,
    SECTOR,
    SITES_AT,
    TABLE,
    TABLE_WORDS,
)

HOST_TO_DEVICE = 1  # cudaMemcpyKind
THREADS = 1024  # of a block that spoils an SM's shared memory
SPOILER = """extern "C" __global__ void spoil(int words) {
    extern __shared__ volatile unsigned memory[];
    for (int i = threadIdx.x; i < words; i += blockDim.x) memory[i] = 0xFFFFFFFF;
}"""


@dataclass(frozen=True)
class Disturbance:
    """How a run is disturbed: nothing but `sites` (module, number), and each by `seed`.

    A delay takes up to `longest_ns`; each is taken once in `of` (a power of two), at most `most` per thread.
    """

    seed: int = 0
    sites: frozenset[tuple[int, int]] = frozenset()
    longest_ns: int = 0
    of: int = 1
    most: int = 0


class Delays:
    """All modules that were loaded under it, their sites and the arrays that their kernels were given."""

    def __init__(self, cupy: Any) -> None:
        self.cupy = cupy
        self.modules: list[tuple[Any, DelayedPtx]] = []
        self.arrays: dict[int, Any] = {}  # by address
        self._spoiler: Any = None
        self._shared_bytes = self._sm_count = 0

    @property
    def sites(self) -> dict[tuple[int, int], Site]:
        """Every place that a run can be disturbed at."""
        return {
            (place, site.number): site
            for place, (_, delayed) in enumerate(self.modules)
            for site in delayed.sites
        }

    @property
    def notes(self) -> list[str]:
        """What was left without delays."""
        return list(dict.fromkeys(note for _, delayed in self.modules for note in delayed.notes))

    def load(self, ptx: str) -> Any:
        """CuPy's module of PTX, rewritten. Raises `CompileError` where the driver does not take it."""
        delayed = with_delays(ptx)
        try:
            module = loaded_module(self.cupy, delayed.text.encode())
        except self.cupy.cuda.driver.CUDADriverError as error:
            raise CompileError(f"the driver does not take the code with delays in it: {error}") from None
        self.modules.append((module, delayed))
        self._write(len(self.modules) - 1, Disturbance())
        return module

    def set(self, disturbance: Disturbance) -> None:
        """Of all modules, for the runs from now on. Nothing may be running."""
        for place in range(len(self.modules)):
            self._write(place, disturbance)

    def spoil_shared_memory(self, stream: Any) -> None:
        """Fills it on every SM, where a run leaves what is right for the next one, which has the same data.

        By the language a kernel may find anything there at its beginning.
        """
        if self._spoiler is None:
            flags = (f"--gpu-architecture={architecture(self.cupy)}",)
            made = compile_text(Path("spoil.cu"), SPOILER, (), flags)
            self._spoiler = loaded_module(self.cupy, made.data).get_function("spoil")
            device, driver = query(), self.cupy.cuda.driver
            self._shared_bytes, self._sm_count = device.shared_bytes_per_block, device.sm_count
            driver.funcSetAttribute(
                self._spoiler.ptr,
                driver.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                self._shared_bytes,
            )
        words = np.int32(self._shared_bytes // 4)
        grid, block = (self._sm_count, 1, 1), (THREADS, 1, 1)
        self._spoiler(grid, block, (words,), self._shared_bytes, stream)

    def note(self, arrays: Iterable[Any]) -> None:
        """Arrays that are read early: those that kernels are given."""
        for array in arrays:
            if isinstance(array, self.cupy.ndarray) and array.nbytes:
                self.arrays.setdefault(int(array.data.ptr), array)

    def _write(self, place: int, disturbance: Disturbance) -> None:
        module, _ = self.modules[place]
        own = [number for owner, number in disturbance.sites if owner == place]
        table = table_of(disturbance, own, [(at, array.nbytes) for at, array in self.arrays.items()])
        address = int(module.get_global_var(TABLE))
        self.cupy.cuda.runtime.memcpy(address, table.ctypes.data, table.nbytes, HOST_TO_DEVICE)

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        """Within, what loads CUDA C++ loads it with delays."""
        cupy, delays = self.cupy, self
        kept = cupy.RawModule, cupy.RawKernel

        def load(cubin: Cubin) -> Any:
            return delays.load(cubin.ptx)

        try:
            cupy.RawModule = lambda *words, **named: RawModule(delays, *words, **named)
            cupy.RawKernel = lambda code, name, options=(), **_: RawModule(
                delays, code=code, options=options
            ).get_function(name)
            with loading_with(load):
                yield
        finally:
            cupy.RawModule, cupy.RawKernel = kept


def table_of(
    disturbance: Disturbance, sites: Sequence[int], arrays: Sequence[tuple[int, int]]
) -> "np.ndarray[Any, np.dtype[np.uint32]]":
    """The table's words for a module: `sites` are its own, `arrays` addresses and bytes."""
    table = np.zeros(TABLE_WORDS, np.uint32)
    table[:HEAD_WORDS] = disturbance.seed, disturbance.longest_ns, disturbance.of - 1, disturbance.most
    for place, (address, size) in enumerate(sorted(arrays, key=lambda array: array[1])[:MOST_ARRAYS]):
        at = HEAD_WORDS + ARRAY_WORDS * place
        table[at : at + 2].view(np.uint64)[0] = address
        table[at + 2] = size // SECTOR
    for number in sites:
        table[SITES_AT + number // 32] |= np.uint32(1 << number % 32)
    return table


class RawModule:
    """In place of `cupy.RawModule`: CUDA C++ compiled by NVRTC, with delays."""

    def __init__(
        self,
        delays: Delays,
        code: str | None = None,
        *,
        path: str | None = None,
        options: Sequence[str] = (),
        name_expressions: Sequence[str] = (),
        **_: Any,
    ) -> None:
        if code is None:
            raise DescriptionError(
                f"shake reads CUDA C++ and not machine code; give {path}'s source as code="
            )
        self._delays = delays
        cupy = delays.cupy
        flags = (
            f"--gpu-architecture={architecture(cupy)}",
            "--generate-line-info",
            *options,
            *(f"-I{folder}" for folder in cuda_folders()),
            *(DEVICE_RUNTIME if GRID_CALLS.search(code) else ()),
        )
        try:
            made = compile_text(Path("kernel.cu"), code, tuple(name_expressions), flags)
        except NotCompiledError as error:
            raise DescriptionError(str(error)) from None
        self._lowered = made.lowered
        self.module = delays.load(made.ptx)

    def get_function(self, name: str) -> "RawFunction":
        """The kernel of that name, or template instance."""
        return RawFunction(self._delays, self.module.get_function(self._lowered.get(name, name)))

    def get_global(self, name: str) -> Any:
        """A global variable's memory."""
        return self.module.get_global_var(name)


class RawFunction:
    """In place of `cupy.RawKernel`: launches it, and notes the arrays that it is given."""

    def __init__(self, delays: Delays, function: Any) -> None:
        self._delays, self.kernel = delays, function

    @property
    def ptr(self) -> int:
        """The driver's handle."""
        return int(self.kernel.ptr)

    def __call__(self, grid: Any, block: Any, args: Sequence[Any], **named: Any) -> None:
        """Launches it on the current stream."""
        self._delays.note(args)
        self.kernel(grid, block, args, **named)
