"""wavesim's runner for NVIDIA GPUs: compiles our CUDA C++, runs pipelines under a plan, records traces.

Example: the simulator answers "what would this plan do"; `CupyRunner.measure` takes the same pipeline
and the same plan to a GPU and answers with the same kind of `Trace`. Import what you need from
`wavesim_gpu.run.runner`, `wavesim_gpu.driver.device` and `wavesim_gpu.driver.compiler`; nothing here needs a
GPU to import.
"""

from typing import Any

__all__ = [
    "FailedCallsError",
    "Recording",
    "check",
    "column_parallel_linear",
    "mirror_semaphores",
    "mlp",
    "record_launches",
    "row_parallel_linear",
]


def __getattr__(name: str) -> Any:
    """The public names, imported on first use."""
    if name == "mlp":
        from wavesim_gpu.layers.mlp import mlp  # noqa: PLC0415  # light until it is used

        return mlp
    if name in ("row_parallel_linear", "column_parallel_linear"):
        from wavesim_gpu.torch import parallel  # noqa: PLC0415  # PyTorch is loaded on first use

        return getattr(parallel, name)
    if name == "Recording":
        from wavesim_gpu.record import Recording  # noqa: PLC0415  # light until it is used

        return Recording
    if name == "record_launches":
        from wavesim_gpu.hang.launch_recorder import record_launches  # noqa: PLC0415  # light until it is used

        return record_launches
    if name == "mirror_semaphores":
        from wavesim_gpu.hang import semaphore_mirror  # noqa: PLC0415  # light until it is used

        return semaphore_mirror.mirror_semaphores
    if name in ("FailedCallsError", "check"):
        from wavesim_gpu.layers import calls  # noqa: PLC0415  # light until it is used

        return getattr(calls, name)
    raise AttributeError(f"module 'wavesim_gpu' has no attribute {name!r}")
