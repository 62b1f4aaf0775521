"""Other people's arrays: PyTorch's tensors, all others through `__cuda_array_interface__` or DLPack.

Example: a `torch.Tensor` on cuda:0 becomes its address, shape, type and device; what is made for it comes
from PyTorch's allocator and what is launched for it goes to PyTorch's current stream. For anything else CuPy
does the same. PyTorch is imported only for those who pass its tensors.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

from wavesim.errors import DescriptionError
from wavesim_gpu.runtime.device import require_cupy

ALIGNMENT = 16  # bytes of one asynchronous copy
TYPES = {"float16": "fp16", "bfloat16": "bf16"}


@dataclass(frozen=True)
class Tensor:
    """A row-major array on a GPU. `array` keeps it alive; `dtype` is "fp16" or "bf16"."""

    array: Any
    address: int
    shape: tuple[int, ...]
    dtype: str
    device: int
    library: Literal["torch", "cupy"]


def tensor_of(name: str, array: Any) -> Tensor:
    """An argument, checked.

    Raises `DescriptionError` that names it: not on a GPU, of another type, not row-major or not aligned.
    """
    found = _from_torch(name, array) if is_torch(array) else _from_protocol(name, array)
    if found.address % ALIGNMENT:
        raise DescriptionError(
            f"{name} starts at {found.address:#x}; it must be aligned to {ALIGNMENT} bytes: pass a copy"
        )
    return found


def is_torch(array: Any) -> bool:
    """Whether it is a PyTorch tensor, told by its type's module."""
    return type(array).__module__.partition(".")[0] == "torch"


def needs_gradient(array: Any) -> bool:
    """Whether PyTorch would record what is computed from it."""
    if not is_torch(array) or not array.requires_grad:
        return False
    import torch  # noqa: PLC0415  # there: the array is one of its tensors

    return bool(torch.is_grad_enabled())


def _from_torch(name: str, array: Any) -> Tensor:
    if array.device.type != "cuda":
        raise DescriptionError(f"{name} is on {array.device}; it must be on a GPU: {name}.cuda()")
    dtype = _dtype(name, str(array.dtype).removeprefix("torch."))
    if not array.is_contiguous():
        raise DescriptionError(
            f"{name} has strides {tuple(array.stride())}; it must be row-major: {name}.contiguous()"
        )
    return Tensor(array, array.data_ptr(), tuple(array.shape), dtype, array.device.index, "torch")


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
    if not made.flags.c_contiguous:
        raise DescriptionError(f"{name} has strides {made.strides} bytes; it must be row-major: pass a copy")
    return Tensor(made, int(made.data.ptr), tuple(made.shape), dtype, int(made.device.id), "cupy")


def _dtype(name: str, word: str) -> str:
    if word not in TYPES:
        raise DescriptionError(f"{name} is of {word}; it must be of {' or '.join(TYPES)}")
    return TYPES[word]


def empty_like(tensor: Tensor, shape: tuple[int, ...]) -> Tensor:
    """A new array of the same library, type and device, from that library's allocator."""
    if tensor.library == "torch":
        made = tensor.array.new_empty(shape)
        return Tensor(made, made.data_ptr(), shape, tensor.dtype, tensor.device, "torch")
    made = require_cupy().empty(shape, tensor.array.dtype)
    return Tensor(made, int(made.data.ptr), shape, tensor.dtype, tensor.device, "cupy")


def workspace(tensor: Tensor, count: int) -> Tensor:
    """Bytes, not initialised, from the allocator of the tensor's library."""
    if tensor.library == "torch":
        import torch  # noqa: PLC0415  # there: the tensor is one of its

        made = torch.empty(count, dtype=torch.uint8, device=tensor.array.device)
        return Tensor(made, made.data_ptr(), (count,), "bytes", tensor.device, "torch")
    made = require_cupy().empty(count, "uint8")
    return Tensor(made, int(made.data.ptr), (count,), "bytes", tensor.device, "cupy")


@contextmanager
def on_device_of(tensor: Tensor) -> Iterator[None]:
    """CuPy's current device is the tensor's within."""
    with require_cupy().cuda.Device(tensor.device):
        yield


def current_stream(tensor: Tensor) -> Any:
    """The caller's current stream on the tensor's device, as CuPy's."""
    cupy = require_cupy()
    if tensor.library == "cupy":
        return cupy.cuda.get_current_stream()
    import torch  # noqa: PLC0415  # there: the tensor is one of its

    return stream_at(torch.cuda.current_stream(tensor.device).cuda_stream)


def stream_at(address: int) -> Any:
    """Somebody else's stream, as CuPy's."""
    return require_cupy().cuda.Stream.from_external(_Given(address))


@dataclass(frozen=True)
class _Given:
    """A stream's address, as CUDA's stream protocol hands it on."""

    address: int

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self.address


def is_capturing(stream: Any) -> bool:
    """Whether a graph is being captured from the stream."""
    status = require_cupy().cuda.runtime.streamIsCapturing(stream.ptr)
    return bool(status)


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
