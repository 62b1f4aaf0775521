"""Other people's arrays: PyTorch's tensors, all others through `__cuda_array_interface__` or DLPack.

Example: a `torch.Tensor` on cuda:0 becomes its address, shape, type and device; what is made for it comes
from PyTorch's allocator and what is launched for it goes to PyTorch's current stream. For anything else CuPy
does the same. PyTorch is imported only for those who pass its tensors.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from math import prod
from typing import Any, Literal

from wavesim.errors import DescriptionError, DeviceError
from wavesim_gpu.driver.device import require_cupy

ELEMENT_BYTES = 2
TYPES = {"float16": "fp16", "bfloat16": "bf16"}
PLAIN = ("Tensor", "Parameter", "Buffer")  # PyTorch's classes whose elements are where their address says


@dataclass(frozen=True)
class Tensor:
    """An array on a GPU. `array` keeps it alive; `dtype` is "fp16" or "bf16"; `strides` are in elements."""

    array: Any
    address: int
    shape: tuple[int, ...]
    dtype: str
    device: int
    library: Literal["torch", "cupy"]
    strides: tuple[int, ...]

    @property
    def end(self) -> int:
        """The address after its last element; its own for an empty array."""
        if 0 in self.shape:
            return self.address
        last = sum((side - 1) * stride for side, stride in zip(self.shape, self.strides, strict=True))
        return self.address + (last + 1) * ELEMENT_BYTES

    @property
    def is_dense(self) -> bool:
        """Whether it is row-major without gaps; sides of 1 have whatever stride."""
        sides = zip(self.shape, self.strides, dense_strides(self.shape), strict=True)
        return all(side == 1 or stride == dense for side, stride, dense in sides)


def dense_strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Of a row-major array without gaps, in elements."""
    return tuple(prod(shape[axis + 1 :]) for axis in range(len(shape)))


def tensor_of(name: str, array: Any) -> Tensor:
    """An argument, in any layout. Raises `DescriptionError` that names it: not on a GPU, another type."""
    return _from_torch(name, array) if is_torch(array) else _from_protocol(name, array)


def is_torch(array: Any) -> bool:
    """Whether it is a PyTorch tensor, or of a class derived from it, told by their modules."""
    return any(base.__module__.partition(".")[0] == "torch" for base in type(array).__mro__)


def _from_torch(name: str, array: Any) -> Tensor:
    kind = type(array)
    if kind.__module__.partition(".")[0] != "torch" or kind.__qualname__ not in PLAIN:
        raise DescriptionError(
            f"{name} is a {kind.__module__}.{kind.__qualname__}, which keeps its elements in "
            f"its own way; give a plain tensor of {' or '.join(TYPES)}: dequantise what is quantised"
        )
    if array.device.type != "cuda":
        raise DescriptionError(
            f"{name} is on {array.device}; it must be on a GPU ({name}.cuda()); "
            "wavesim_gpu.torch.mlp takes tensors on a CPU too"
        )
    dtype = _dtype(name, str(array.dtype).removeprefix("torch."))
    if str(array.layout) != "torch.strided":
        raise DescriptionError(f"{name} has layout {array.layout}; it must be dense: {name}.to_dense()")
    shape, strides = tuple(array.shape), tuple(array.stride())
    return Tensor(array, array.data_ptr(), shape, dtype, array.device.index, "torch", strides)


def _from_protocol(name: str, array: Any) -> Tensor:
    """CuPy waits for the stream that the protocol names, if it names one."""
    cupy = require_cupy()
    if hasattr(array, "__cuda_array_interface__"):
        made = cupy.asarray(array)
    elif hasattr(array, "__dlpack__"):
        try:
            made = cupy.from_dlpack(array)
        except (BufferError, TypeError, RuntimeError, ValueError) as error:
            raise DescriptionError(f"{name} cannot be taken through DLPack: {error}") from None
    else:
        raise DescriptionError(
            f"{name} is a {type(array).__name__}; give an array on a GPU that has __dlpack__ or "
            "__cuda_array_interface__: PyTorch, CuPy, Numba, JAX"
        )
    dtype = _dtype(name, str(made.dtype))
    strides = tuple(stride // made.dtype.itemsize for stride in made.strides)
    return Tensor(made, int(made.data.ptr), tuple(made.shape), dtype, int(made.device.id), "cupy", strides)


def _dtype(name: str, word: str) -> str:
    if word not in TYPES:
        wide, whole = word.startswith(("float32", "float64")), word.startswith(("int", "uint", "q", "float8"))
        fix = ": cast it, or call under autocast" if wide else ": dequantise it first" if whole else ""
        raise DescriptionError(f"{name} is of {word}; it must be of {' or '.join(TYPES)}{fix}")
    return TYPES[word]


def empty_like(tensor: Tensor, shape: tuple[int, ...]) -> Tensor:
    """A new array of the same library, type and device, from that library's allocator."""
    if tensor.library == "torch":
        made = tensor.array.new_empty(shape)
        return Tensor(
            made, made.data_ptr(), shape, tensor.dtype, tensor.device, "torch", dense_strides(shape)
        )
    made = require_cupy().empty(shape, tensor.array.dtype)
    return Tensor(made, int(made.data.ptr), shape, tensor.dtype, tensor.device, "cupy", dense_strides(shape))


def workspace(tensor: Tensor, count: int) -> Tensor:
    """Bytes, not initialised, from the allocator of the tensor's library."""
    if tensor.library == "torch":
        import torch  # noqa: PLC0415  # there: the tensor is one of its

        made = torch.empty(count, dtype=torch.uint8, device=tensor.array.device)
        return Tensor(made, made.data_ptr(), (count,), "bytes", tensor.device, "torch", (1,))
    made = require_cupy().empty(count, "uint8")
    return Tensor(made, int(made.data.ptr), (count,), "bytes", tensor.device, "cupy", (1,))


def copied(tensor: Tensor) -> Tensor:
    """A dense copy in the same library."""
    made = require_cupy().ascontiguousarray(tensor.array)
    return replace(tensor, array=made, address=int(made.data.ptr), strides=dense_strides(tensor.shape))


@contextmanager
def on_device_of(tensor: Tensor) -> Iterator[None]:
    """The tensor's device is the current one within: its library's, and CuPy's where that is installed."""
    with ExitStack() as stack:
        if tensor.library == "torch":
            stack.enter_context(on_device(tensor.device))
        with suppress(DeviceError):
            stack.enter_context(require_cupy().cuda.Device(tensor.device))
        yield


def on_device(number: int) -> AbstractContextManager[Any]:
    """A device is PyTorch's current one within."""
    import torch  # noqa: PLC0415  # there: somebody has its tensors

    return torch.cuda.device(number)


def current_stream(tensor: Tensor) -> int:
    """The address of its library's current stream on the tensor's device."""
    if tensor.library == "cupy":
        return int(require_cupy().cuda.get_current_stream().ptr)
    import torch  # noqa: PLC0415  # there: the tensor is one of its

    return int(torch.cuda.current_stream(tensor.device).cuda_stream)


def is_capturing(tensor: Tensor) -> bool:
    """Whether a graph is being captured from its library's current stream."""
    if tensor.library == "cupy":
        return bool(require_cupy().cuda.runtime.streamIsCapturing(current_stream(tensor)))
    import torch  # noqa: PLC0415  # there: the tensor is one of its

    return bool(torch.cuda.is_current_stream_capturing())


def stream_at(address: int) -> Any:
    """Somebody else's stream, as CuPy's."""
    return require_cupy().cuda.Stream.from_external(_Given(address))


@dataclass(frozen=True)
class _Given:
    """A stream's address, as CUDA's stream protocol hands it on."""

    address: int

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self.address


@contextmanager
def allowed_while_capturing() -> Iterator[None]:
    """Memory and streams may be made within, even while this thread or another captures a graph."""
    from cuda.bindings import driver  # noqa: PLC0415  # only where there is a GPU

    exchange, relaxed = driver.cuThreadExchangeStreamCaptureMode, driver.CUstreamCaptureMode
    status, before = exchange(relaxed.CU_STREAM_CAPTURE_MODE_RELAXED)
    try:
        yield
    finally:
        if int(status) == 0:
            exchange(before)
