"""The software that measured times depend on: driver, CUDA, cuBLASLt, and what our kernels say.

Example: `used_software()["kernels"]` changes when an instruction of a kernel does, and not with a comment.
"""

from collections.abc import Mapping
from functools import cache

from wavesim.errors import DeviceError
from wavesim_gpu.cublas.cublas_library import library_version
from wavesim_gpu.driver.device import versions
from wavesim_gpu.driver.kernel_sources import source_hash
from wavesim_gpu.kernels.backends import BACKENDS


@cache
def used_software() -> Mapping[str, str]:
    """Versions and a hash of the kernels, by name. Needs a GPU; the first call in a process reads sources."""
    found = versions()
    used = {name: found[name] for name in ("driver", "cuda_driver", "cuda_runtime")}
    kernels = source_hash(*(backend.source for backend in BACKENDS.values()))
    return {**used, "cublaslt": _cublaslt(), "kernels": kernels}


def _cublaslt() -> str:
    """The version of the library that would compute, "" where it cannot be had."""
    try:
        return library_version()
    except DeviceError:
        return ""
