"""One step under torch's profiler, read by the advisor: where the GPU's time goes, what could overlap.

Example: of a prompt through a language model, the pairs of kernels whose last waves tile sync could fill.
"""

import json
import platform
import tempfile
from decimal import Decimal
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING

import wavesim
from wavesim.errors import RecordingError
from wavesim.profile.advice import Advice, advise
from wavesim.profile.kineto import profile_of_trace
from wavesim.safe_io.reading import read_bytes

if TYPE_CHECKING:
    from wavesim_gpu.trial.user_model import UserModel

MOST_BYTES = 1 << 29  # of a trace: a step of 100,000 launches has 100 MB


def profiled_advice(user: "UserModel") -> Advice:
    """Profiles one step, after one that is not. Raises `RecordingError` where there is nothing to read."""
    import torch  # noqa: PLC0415  # optional

    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    user.run()
    torch.cuda.synchronize()
    with torch.profiler.profile(activities=activities, record_shapes=True) as profiler:
        user.run()
        torch.cuda.synchronize()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "step.json"
        profiler.export_chrome_trace(str(path))
        data = read_bytes(path, MOST_BYTES)
    try:
        trace = json.loads(data, parse_float=Decimal)
    except ValueError as error:
        raise RecordingError(f"torch's profiler left no JSON: {error}; try again") from error
    return advise(profile_of_trace("one step", trace))


PACKAGES = ("torch", "transformers", "triton", "cupy-cuda13x", "numpy")


def installed_versions() -> dict[str, str]:
    """The interpreter's and the packages' versions."""
    versions = {"wavesim": wavesim.__version__, "python": platform.python_version()}
    for package in PACKAGES:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            continue
    return versions
