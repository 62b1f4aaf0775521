"""cuBLAS and cuBLASLt as loaded libraries: which files, their functions' types, a handle for each GPU.

Example: with PyTorch in the process `library()` is the cuBLASLt that PyTorch has loaded, so that both choose
by the same heuristic and there is one copy of it; else the one among the installed packages.
"""

import ctypes
import os
import threading
from functools import cache
from typing import Any

from wavesim.errors import DeviceError
from wavesim.safe_io.escaping import one_line
from wavesim_gpu.driver.device import compute_capability, require_cupy

# library_types.h and cublas_api.h of CUDA 12 and 13.
COMPUTE_FP32, FP32, FP16, BF16 = 68, 0, 2, 14
TYPES = {"fp16": FP16, "bf16": BF16}
STATUS_WORDS = {
    1: "not initialised",
    3: "allocation failed",
    7: "invalid value",
    8: "architecture mismatch",
    13: "execution failed",
    14: "internal error",
    15: "not supported",
}
HOPPER = (9, 0)
WORKSPACE_BYTES, SMALL_WORKSPACE_BYTES = 32 << 20, 8 << 20  # what PyTorch gives: on Hopper, elsewhere
VERSIONS = ("13", "12")  # of CUDA
INSTALL = (
    "it comes with CUDA builds of PyTorch, or: pip install nvidia-cublas (of CUDA 12: nvidia-cublas-cu12)"
)
_address, _int, _size = ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t
LT_FUNCTIONS: dict[str, tuple[Any, ...]] = {
    "cublasLtCreate": (_address,),
    "cublasLtGetVersion": (),
    "cublasLtMatmulDescCreate": (_address, _int, _int),
    "cublasLtMatmulDescSetAttribute": (_address, _int, _address, _size),
    "cublasLtMatmulDescDestroy": (_address,),
    "cublasLtMatrixLayoutCreate": (_address, _int, ctypes.c_uint64, ctypes.c_uint64, ctypes.c_int64),
    "cublasLtMatrixLayoutSetAttribute": (_address, _int, _address, _size),
    "cublasLtMatrixLayoutDestroy": (_address,),
    "cublasLtMatmulPreferenceCreate": (_address,),
    "cublasLtMatmulPreferenceSetAttribute": (_address, _int, _address, _size),
    "cublasLtMatmulPreferenceDestroy": (_address,),
    "cublasLtMatmulAlgoGetHeuristic": (*(_address,) * 7, _int, _address, _address),
    "cublasLtMatmulAlgoCheck": (_address,) * 8,
    "cublasLtMatmul": (*(_address,) * 14, _size, _address),
}
FUNCTIONS: dict[str, tuple[Any, ...]] = {
    "cublasCreate_v2": (_address,),
    "cublasSetStream_v2": (_address, _address),
    "cublasSetWorkspace_v2": (_address, _address, _size),
    "cublasGemmEx": (
        *(_address, _int, _int, _int, _int, _int, _address, _address, _int, _int, _address, _int, _int),
        *(_address, _address, _int, _int, _int, _int),
    ),
}
_lt_handles: dict[int, int] = {}
_handles: dict[int, "Handle"] = {}
_creating = threading.Lock()


class Found(ctypes.Structure):
    """cublasLtMatmulHeuristicResult_t: an algorithm that is offered."""

    _fields_ = (
        ("algo", ctypes.c_uint8 * 64),
        ("workspace_bytes", ctypes.c_size_t),
        ("state", ctypes.c_int),
        ("waves", ctypes.c_float),
        ("reserved", ctypes.c_int * 4),
    )


class Descriptor:
    """One of cuBLASLt's descriptors, such as "MatmulDesc", destroyed with this object."""

    def __init__(self, kind: str, *arguments: int) -> None:
        self._kind = kind
        self._library = library()
        self.address = _made(self._library, f"cublasLt{kind}Create", *arguments)

    def set(self, attribute: int, value: Any) -> None:
        """Sets an attribute to a ctypes value."""
        setter = getattr(self._library, f"cublasLt{self._kind}SetAttribute")
        check(setter(self.address, attribute, ctypes.addressof(value), ctypes.sizeof(value)), self._kind)

    def __del__(self) -> None:
        if address := getattr(self, "address", 0):
            getattr(self._library, f"cublasLt{self._kind}Destroy")(address)


class Handle:
    """A cuBLAS handle, used under its lock. `stream` and `workspace` are those that it has been given."""

    def __init__(self, address: int) -> None:
        self.address = address
        self.lock = threading.Lock()
        self.stream = self.workspace = -1

    def set(self, stream: int, workspace: int) -> int:
        """Has the next products run on the stream and in the workspace; returns cuBLAS's status."""
        if (stream, workspace) == (self.stream, self.workspace):
            return 0
        self.stream = -1  # none, should one of the two be refused
        functions = gemm_library()
        status = functions.cublasSetStream_v2(self.address, stream)
        # A new stream puts back the handle's own workspace.
        status = status or functions.cublasSetWorkspace_v2(self.address, workspace, workspace_bytes())
        if not status:
            self.stream, self.workspace = stream, workspace
        return int(status)


@cache
def library() -> Any:
    """The library cuBLASLt. Raises `DeviceError` where it cannot be loaded."""
    return _loaded("cublasLt", LT_FUNCTIONS)


def library_version() -> str:
    """That of cuBLASLt, such as "130101": algorithms are kept for the version that listed them."""
    return str(int(library().cublasLtGetVersion()))


def lt_handle(device: int) -> int:
    """The handle of cuBLASLt for a GPU, the current one; any thread may use it."""
    with _creating:
        if device not in _lt_handles:
            _lt_handles[device] = _made(library(), "cublasLtCreate")
        return _lt_handles[device]


def gemm_handle(device: int) -> Handle:
    """The handle of cuBLAS for a GPU, the current one."""
    with _creating:
        if device not in _handles:
            _handles[device] = Handle(_made(gemm_library(), "cublasCreate_v2"))
        return _handles[device]


@cache
def gemm_library() -> Any:
    """The library of `cublasGemmEx`. Raises `DeviceError` where it cannot be loaded."""
    return _loaded("cublas", FUNCTIONS)


def current_device() -> int:
    """The current GPU's number."""
    return int(require_cupy().cuda.Device().id)


@cache
def workspace_bytes() -> int:
    """What a product may use beside its operands."""
    is_hopper = compute_capability(require_cupy()) == HOPPER
    return WORKSPACE_BYTES if is_hopper else SMALL_WORKSPACE_BYTES


def check(status: int, what: str) -> None:
    """Raises `DeviceError` where the status is not 0."""
    if status:
        word = STATUS_WORDS.get(status, "unknown")
        raise DeviceError(f"cuBLAS refused {what} with status {status} ({word})")


def _made(loaded: Any, function: str, *arguments: int) -> int:
    made = ctypes.c_void_p()
    check(getattr(loaded, function)(ctypes.addressof(made), *arguments), function)
    return made.value or 0


def _loaded(name: str, functions: dict[str, tuple[Any, ...]]) -> Any:
    """The library that the process has loaded, or else the one of the installed packages."""
    result = _in_process(name) or _installed(name)
    for function, types in functions.items():
        try:
            loaded = getattr(result, function)
        except AttributeError as error:
            raise DeviceError(f"lib{name}.so is too old ({error}); {INSTALL}") from None
        loaded.argtypes = types
        loaded.restype = ctypes.c_size_t if function.endswith("GetVersion") else ctypes.c_int
    return result


def _in_process(name: str) -> Any:
    for version in VERSIONS:
        try:
            return ctypes.CDLL(f"lib{name}.so.{version}", mode=os.RTLD_NOLOAD | os.RTLD_NOW)
        except OSError:
            continue
    return None


def _installed(name: str) -> Any:
    try:
        from cuda import pathfinder  # noqa: PLC0415  # an optional package, named in the error

        return ctypes.CDLL(pathfinder.load_nvidia_dynamic_lib(name).abs_path)
    except Exception as error:  # it has many of its own
        raise DeviceError(f"lib{name}.so cannot be loaded ({one_line(str(error))}); {INSTALL}") from error
