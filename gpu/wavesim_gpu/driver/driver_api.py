"""The few functions of the CUDA driver that are called for every launch, without wrappers that take time.

Example: `require_driver().cuStreamGetId(c_void_p(stream), byref(number))` returns a status, 0 where all is
well; `status_name(status)` is the driver's word for another. The runtime's other calls go through CuPy.
"""

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from ctypes import byref, c_char_p, c_int, c_uint, c_void_p
from functools import cache
from typing import Any

from wavesim.errors import DeviceError

LIBRARY = "libcuda.so.1"
# Statuses of a thread on which no context, or another one than a launch's, is current.
OTHER_CONTEXT = (3, 201, 400, 709)  # not initialised, invalid context, invalid handle, context is destroyed
_ARGUMENTS: dict[str, list[Any]] = {
    "cuTensorMapReplaceAddress": [c_void_p, c_void_p],
    "cuCtxGetCurrent": [c_void_p],
    "cuCtxPushCurrent_v2": [c_void_p],
    "cuCtxPopCurrent_v2": [c_void_p],
    "cuGetErrorName": [c_int, c_void_p],
}
# Without a list of types a call takes a third of the time: arguments are `c_void_p` or `byref` something.
_CALLED_OFTEN = ("cuLaunchKernelEx", "cuStreamGetId")


@cache
def require_driver() -> Any:
    """The driver's library. Raises `DeviceError` where there is none, or one older than CUDA 12."""
    try:
        library = _library()
        for name, arguments in _ARGUMENTS.items():
            function = getattr(library, name)
            function.argtypes, function.restype = arguments, c_int
        for name in _CALLED_OFTEN:
            getattr(library, name).restype = c_int
    except (OSError, AttributeError) as error:
        raise DeviceError(f"no NVIDIA driver of CUDA 12 or later ({error}). Install one") from None
    return library


def _library() -> Any:
    # Its functions are called without Python's lock: a launch waits where a stream's queue is full.
    return ctypes.CDLL(LIBRARY)


def status_name(status: int) -> str:
    """The driver's word for a status."""
    name = c_char_p()
    require_driver().cuGetErrorName(status, byref(name))
    return (name.value or b"CUDA error %d" % status).decode()


def current_context() -> int:
    """The calling thread's context; 0 without one."""
    context = c_void_p()
    require_driver().cuCtxGetCurrent(byref(context))
    return context.value or 0


@contextmanager
def in_context(context: int) -> Iterator[None]:
    """The context is the calling thread's within."""
    driver = require_driver()
    status = driver.cuCtxPushCurrent_v2(context)
    if status:
        raise DeviceError(f"the GPU's context cannot be made current: {status_name(status)}")
    try:
        yield
    finally:
        driver.cuCtxPopCurrent_v2(byref(c_void_p()))


class ClusterSize(ctypes.Structure):
    """Blocks of a cluster, along the grid's axes."""

    _fields_ = (("x", c_uint), ("y", c_uint), ("z", c_uint))


class _AttributeValue(ctypes.Union):
    _fields_ = (("cluster", ClusterSize), ("flag", c_int), ("padding", ctypes.c_char * 64))


class LaunchAttribute(ctypes.Structure):
    """CUlaunchAttribute."""

    _fields_ = (("kind", c_uint), ("padding", c_uint), ("value", _AttributeValue))


class LaunchConfig(ctypes.Structure):
    """CUlaunchConfig."""

    _fields_ = (
        ("grid", c_uint * 3),
        ("block", c_uint * 3),
        ("dynamic_shared_bytes", c_uint),
        ("stream", c_void_p),
        ("attributes", ctypes.POINTER(LaunchAttribute)),
        ("attribute_count", c_uint),
    )


assert (ctypes.sizeof(LaunchAttribute), ctypes.sizeof(LaunchConfig)) == (72, 56)
