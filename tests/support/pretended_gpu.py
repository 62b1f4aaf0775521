"""A GPU that is not there: which kernels would the GPU tests load? With these compiled ahead, on all cores or
on another machine, a test run has nothing left to compile.

The tests run once against arrays that hold nothing and launches that do nothing. What they say of the results
means nothing; every kernel that they ask the compiler for is noted.
"""

import os
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

from wavesim.errors import DeviceError
from wavesim.model.device import load

NUMBERS = {
    "ptr": 1 << 40,
    "nbytes": 1 << 24,
    "size": 1 << 22,
    "itemsize": 2,
    "id": 0,
    "shape": (256, 128),
    "strides": (0, 2),
}


class Anything:
    """Has every attribute, can be called, indexed and calculated with, and is always itself."""

    def __init__(self, *args):
        pass

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return NUMBERS.get(name, self)

    def __call__(self, *args, **kwargs):
        return self

    def __iter__(self):
        return iter(())

    def __int__(self):
        return 64

    __index__ = __int__

    def __float__(self):
        return 0.0

    def __enter__(self):
        return self

    def __exit__(self, *caught):
        return False

    def _self(self, *args):
        return self

    __getitem__ = __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = _self
    __rtruediv__ = __floordiv__ = __mod__ = __pow__ = __matmul__ = __rmatmul__ = __neg__ = __abs__ = _self
    __lt__ = __le__ = __gt__ = __ge__ = __and__ = __or__ = __rshift__ = __lshift__ = __invert__ = __eq__ = (
        __ne__
    ) = _self
    __setitem__ = __delitem__ = _self
    __hash__ = object.__hash__

    def free_bytes(self):
        return 1 << 40

    def __format__(self, how):
        return "anything"

    def get(self, *args, **kwargs):
        return np.zeros(1 << 12, np.uint8)


class Pinned(np.ndarray):
    """Host memory with an address, as CuPy's pinned memory has one."""

    @property
    def ptr(self):
        return self.ctypes.data


def pretended_cupy(device):
    """A module in CuPy's place, with the answers that describe the device."""
    anything = Anything()

    class Device(Anything):
        compute_capability = "".join(map(str, device.compute_capability))

    class Runtime(Anything):
        def getDeviceCount(self):  # CuPy's name
            return 1

        def getDeviceProperties(self, index):  # CuPy's name
            return {
                "name": "NVIDIA H200",
                "multiProcessorCount": device.sm_count,
                "maxThreadsPerMultiProcessor": device.max_threads_per_sm,
                "maxThreadsPerBlock": device.max_threads_per_block,
                "regsPerMultiprocessor": device.registers_per_sm,
                "sharedMemPerMultiprocessor": device.shared_bytes_per_sm,
                "sharedMemPerBlockOptin": device.shared_bytes_per_block,
                "l2CacheSize": device.l2_bytes,
                "maxBlocksPerMultiProcessor": device.max_blocks_per_sm,
                "reservedSharedMemPerBlock": device.reserved_shared_bytes_per_block,
            }

        def memGetInfo(self):  # CuPy's name
            return 1 << 40, 1 << 40

        def deviceGetAttribute(self, number, index):  # CuPy's name
            return 1000

    class Cuda(Anything):
        runtime = Runtime()

        def Device(self, *args):  # CuPy's name
            return Device()

        def alloc_pinned_memory(self, count):
            return np.zeros(count, np.uint8).view(Pinned)

    class Module(ModuleType):
        cuda = Cuda()
        ndarray = Anything
        __version__ = "pretended"

        def __getattr__(self, name):
            if name.startswith("__"):
                raise AttributeError(name)
            return anything

    return Module("cupy")


class NoLibrary:
    """The driver's, whose every function does nothing and says that all is well."""

    def __getattr__(self, name):
        function = self.__dict__[name] = lambda *arguments: 0
        return function


def _no_library(*args):
    raise DeviceError("no library is called on a GPU that is not there")


class CompileAhead:
    """A pytest plugin: runs the selected tests on the pretended GPU, then compiles what they asked for."""

    def __init__(self):
        self.requests, self.stopped = {}, []
        device = load("h200")
        # What is really installed must not meet addresses that mean nothing.
        sys.modules |= {"cupy": pretended_cupy(device), "torch": None, "triton": None}
        from wavesim_gpu.bench.labs import copies
        from wavesim_gpu.cublas import cublas_library
        from wavesim_gpu.cusync.sync_state import SyncState
        from wavesim_gpu.driver import compiler, driver_api, functions, kernel_launch
        from wavesim_gpu.kernels.gemm.sm90 import tensor_map
        from wavesim_gpu.layers import call_states, calls, planned
        from wavesim_gpu.peers import programs
        from wavesim_gpu.run import operands, runner
        from wavesim_gpu.run.runner import CupyRunner, OutputCheck

        self.build = compiler.build_and_keep
        compiler.build_and_keep = self.note
        cublas_library._loaded = _no_library
        tensor_map._encode = lambda *args: tensor_map.NO_MAP
        tensor_map._encode_im2col = lambda *args: tensor_map.NO_MAP
        functions._configured = lambda cupy, module, name, size: functions.Function(
            module, Anything(), 64, 0, 0
        )
        for room in (calls, call_states, planned):
            room.allowed_while_capturing = nullcontext
        driver_api._library = NoLibrary
        kernel_launch.launch_extended = lambda *args: None
        copies.verdict_of = lambda *args: OutputCheck({}, True, True)
        runner.interleaved_ns = lambda contenders, rounds: [[1000] * rounds for _ in contenders]
        runner.run_in_turn = lambda contenders: None
        runner.build_trace = lambda *args: SimpleNamespace(makespan_ns=1)
        operands._checked = lambda cupy, use, array, whole: array
        programs._require_shapes = lambda problem, arrays: None
        programs.SharedGemmProgram.check = lambda program: None
        SyncState.check = lambda state: None
        CupyRunner.verdict_on_last = lambda runner, program, expected: OutputCheck({}, True, True)

    def note(self, request):
        from wavesim_gpu.driver.cubin_cache import Cubin

        self.requests[request.key] = request
        return Cubin(b"", {name: name for name in request.names}, "")

    def compile_all(self, jobs):
        with ThreadPoolExecutor(jobs) as pool:
            return list(pool.map(self._compiled, self.requests.values()))

    def _compiled(self, request):
        from wavesim.errors import CompileError

        try:
            return len(self.build(request).data)
        except CompileError as error:
            self.stopped.append(f"{request.path.name} {request.names}: {str(error)[:200]}")
            return 0

    @pytest.hookimpl(wrapper=True)
    def pytest_pyfunc_call(self, pyfuncitem):
        """What a test says of arrays that hold nothing is no failure; other ends are listed."""
        try:
            return (yield)
        except (AssertionError, pytest.fail.Exception):
            return True
        except Exception as error:  # noqa: BLE001  # whatever pretended arrays lead to
            self.stopped.append(f"{pyfuncitem.name}: {type(error).__name__}: {str(error)[:120]}")
            return True

    def pytest_sessionfinish(self, session):
        sizes = self.compile_all(session.config.getoption("compile_jobs") or os.cpu_count())
        writer = session.config.get_terminal_writer()
        writer.line(f"\n{len(sizes)} kernels compiled, {sum(sizes) / 1e6:.1f} MB, {sizes.count(0)} failed")
        for line in self.stopped:
            writer.line(f"stopped early: {line}")
        session.exitstatus = 0
