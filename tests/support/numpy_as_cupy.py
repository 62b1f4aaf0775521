"""NumPy in CuPy's place, for what the host side does with arrays: allocate, view, fill, round, compare."""

import ctypes
from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np

ALIGNED = 64


class Memory(np.ndarray):
    """An array with an address, as CuPy's have one."""

    @property
    def data(self):
        return SimpleNamespace(ptr=self.ctypes.data)


def empty(shape, dtype="float32"):
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    raw = np.zeros(size + ALIGNED, np.uint8)
    first = -raw.ctypes.data % ALIGNED
    return raw[first : first + size].view(dtype).reshape(shape).view(Memory)


def filled(values):
    found = empty(np.shape(values), np.asarray(values).dtype)
    found[...] = values
    return found


class RandomState:
    def __init__(self, seed):
        self._generator = np.random.default_rng(seed)

    def standard_normal(self, shape, dtype):
        return filled(self._generator.standard_normal(shape, dtype=dtype))


def numpy_as_cupy():
    runtime = SimpleNamespace(
        memGetInfo=lambda: (1 << 40, 1 << 40),
        memsetAsync=lambda address, value, size, stream: ctypes.memset(address, value, size),
    )
    stream = SimpleNamespace(null=nullcontext())
    own = {
        "ndarray": np.ndarray,
        "empty": empty,
        "zeros": empty,
        "asarray": filled,
        "empty_like": lambda array: empty(array.shape, array.dtype),
        "ascontiguousarray": filled,
        "random": SimpleNamespace(RandomState=RandomState),
        "cuda": SimpleNamespace(runtime=runtime, Stream=stream),
        "get_default_memory_pool": lambda: SimpleNamespace(free_bytes=lambda: 0),
    }
    return SimpleNamespace(**{**vars(np), **own})
