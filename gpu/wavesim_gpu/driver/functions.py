"""Kernels as loaded functions: compiled for this GPU, with the full shared-memory carve-out.

Example: `load_function(SOURCE, "gemm<TileConfig<...>>", Build(), header=text)` compiles once, keeps the
machine code on disk and the function in memory.
"""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wavesim.errors import DeviceError
from wavesim.model.kernel import Block
from wavesim_gpu.driver.compiler import Build, compile_cubin
from wavesim_gpu.driver.cubin_cache import Cubin
from wavesim_gpu.driver.device import architecture, require_cupy

FULL_CARVEOUT = 100  # percent: without it kernels that ask for less shared memory shut each other out
GENERATED = "generated.cuh"  # how kernels include their stage's generated header
# A module is loaded per GPU and context, of which a GPU has several where its SMs are shared out.
_loaded: dict[tuple[Any, ...], "Function"] = {}
_load: Callable[[Cubin], Any] | None = None


@dataclass(frozen=True)
class Function:
    """A loaded kernel and what the driver says of it. `module` keeps it loaded."""

    module: Any
    function: Any
    registers: int
    static_shared_bytes: int
    local_bytes: int

    def block(self, threads: int, dynamic_shared_bytes: int) -> Block:
        """What one of its blocks occupies."""
        return Block(threads, self.registers, self.static_shared_bytes, dynamic_shared_bytes)

    def blocks_per_sm(self, threads: int, dynamic_shared_bytes: int) -> int:
        """Resident blocks per SM, the driver's own answer."""
        driver = require_cupy().cuda.driver
        return int(
            driver.occupancyMaxActiveBlocksPerMultiprocessor(self.function.ptr, threads, dynamic_shared_bytes)
        )


def load_function(
    source: Path, name: str, build: Build, dynamic_shared_bytes: int = 0, header: str = ""
) -> Function:
    """The named kernel, or template instance, compiled for this GPU, with the full carve-out.

    `header` is the text of <generated.cuh>.
    """
    cupy = require_cupy()
    context = cupy.cuda.driver.ctxGetCurrent()
    key = (cupy.cuda.Device().id, context, f"{source}", name, build, header, _load)
    if key not in _loaded:
        cubin = compile_cubin(source, _instances(name), architecture(cupy), build, {GENERATED: header})
        module = _load(cubin) if _load else loaded_module(cupy, cubin.data)
        _loaded[key] = _configured(cupy, module, cubin.lowered.get(name, name), dynamic_shared_bytes)
    return _loaded[key]


def loaded_module(cupy: Any, code: bytes) -> Any:
    """CuPy's module of machine code or of PTX, which the driver then compiles."""
    module = cupy.cuda.function.Module()
    module.load(code)
    return module


@contextmanager
def loading_with(load: Callable[[Cubin], Any]) -> Iterator[None]:
    """Within, `load` makes the module of what `load_function` compiles: for tools that change the code."""
    global _load  # noqa: PLW0603  # one loader per process, as there is one compiler
    _load = load
    try:
        yield
    finally:
        _load = None


@dataclass(frozen=True)
class KernelSpec:
    """A kernel to be compiled: its file, template instance or name, build, and text of <generated.cuh>."""

    source: Path
    expression: str
    build: Build
    header: str


def compile_all(wanted: Iterable[KernelSpec]) -> None:
    """Compiles each once, in threads, for the cache that loading reads."""
    arch = architecture(require_cupy())
    with ThreadPoolExecutor() as pool:
        done = [
            pool.submit(
                compile_cubin,
                kernel.source,
                _instances(kernel.expression),
                arch,
                kernel.build,
                {GENERATED: kernel.header},
            )
            for kernel in set(wanted)
        ]
        for compiled in done:
            compiled.result()


def _instances(name: str) -> tuple[str, ...]:
    """The template instance that the compiler is asked for; an extern "C" kernel is there under its name."""
    return (name,) if "<" in name else ()


def ask_for_full_carveout(function: int) -> None:
    """Sets what the safety of plans with streams rests on, of a CUfunction. Raises `DeviceError`."""
    driver = require_cupy().cuda.driver
    attribute = driver.CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT
    driver.funcSetAttribute(function, attribute, FULL_CARVEOUT)
    taken = int(driver.funcGetAttribute(attribute, function))
    if taken != FULL_CARVEOUT:
        raise DeviceError(
            f"a kernel's shared-memory carve-out is {taken} %, not the {FULL_CARVEOUT} % asked for; "
            "use dependent launch, which does not rest on it"
        )


def _configured(cupy: Any, module: Any, name: str, dynamic_shared_bytes: int) -> Function:
    driver = cupy.cuda.driver
    function = module.get_function(name)
    ask_for_full_carveout(function.ptr)
    if dynamic_shared_bytes:
        driver.funcSetAttribute(
            function.ptr, driver.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, dynamic_shared_bytes
        )
    registers, shared, local = (
        int(driver.funcGetAttribute(attribute, function.ptr))
        for attribute in (
            driver.CU_FUNC_ATTRIBUTE_NUM_REGS,
            driver.CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES,
            driver.CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES,
        )
    )
    return Function(module, function, registers, shared, local)
