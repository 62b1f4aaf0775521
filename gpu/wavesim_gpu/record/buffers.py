"""What differs between a CuPy array, a PyTorch tensor and a NumPy array as a recording's buffer.

Example: the same 16 words of a header, brought to where the buffer is. PyTorch is imported only for those who
have it: its tensors are told by their type's module.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from wavesim.errors import DescriptionError, DeviceError
from wavesim_gpu.driver.device import require_cupy
from wavesim_gpu.driver.tensors import is_torch
from wavesim_gpu.record.layout import ALIGNMENT


def empty_words(library: str, words: int) -> Any:
    """Zeros on the GPU, from "cupy" or "torch". Raises `DeviceError` if that is missing."""
    if library == "cupy":
        return require_cupy().zeros(words, np.int32)
    if library != "torch":
        raise DescriptionError(f"library is {library!r}; it must be 'cupy' or 'torch'")
    try:
        import torch  # noqa: PLC0415  # an optional package, named in the error
    except ImportError as error:
        raise DeviceError(f"PyTorch is not installed ({error}); pip install torch") from error
    return torch.zeros(words, dtype=torch.int32, device="cuda")


def check_buffer(buffer: Any, words: int) -> None:
    """Raises `DescriptionError` unless it is a row of at least so many integers of 4 bytes, aligned to 16."""
    kind = str(getattr(buffer, "dtype", "")).removeprefix("torch.")
    if kind not in ("int32", "uint32"):
        raise DescriptionError(
            f"buffer is a {type(buffer).__name__} of {kind or 'no type'}; give an array of int32 words"
        )
    size, is_row = int(np.prod(tuple(buffer.shape))), len(buffer.shape) == 1
    if not is_row or size < words:
        raise DescriptionError(
            f"buffer has shape {tuple(buffer.shape)}; it must have ({words},) or more words"
        )
    address = buffer.data_ptr() if is_torch(buffer) else _address(buffer)
    is_contiguous = buffer.is_contiguous() if is_torch(buffer) else buffer.flags.c_contiguous
    if address % ALIGNMENT or not is_contiguous:
        raise DescriptionError(f"buffer must be contiguous and aligned to {ALIGNMENT} bytes")


def _address(buffer: Any) -> int:
    return int(buffer.ctypes.data if isinstance(buffer, np.ndarray) else buffer.data.ptr)


def like(buffer: Any, words: NDArray[np.int32]) -> Any:
    """The words where the buffer is and in its type."""
    if is_torch(buffer):
        import torch  # noqa: PLC0415  # there: the buffer is one of its tensors

        return torch.from_numpy(words).to(device=buffer.device, dtype=buffer.dtype)
    if isinstance(buffer, np.ndarray):
        return words.astype(buffer.dtype)
    return require_cupy().asarray(words.astype(buffer.dtype))


def synchronise(buffer: Any) -> None:
    """Waits for all streams of the buffer's GPU: its kernels may have run on any."""
    if is_torch(buffer):
        import torch  # noqa: PLC0415  # there: the buffer is one of its tensors

        torch.cuda.synchronize(buffer.device)
    elif not isinstance(buffer, np.ndarray):
        require_cupy().cuda.Device().synchronize()


def to_numpy(array: Any) -> NDArray[Any]:
    """A copy in the host's memory."""
    if isinstance(array, np.ndarray):
        return array
    return np.asarray(array.cpu().numpy() if is_torch(array) else array.get())
