"""wavesim's runner for NVIDIA GPUs: compiles our CUDA C++, runs pipelines under a plan, records traces.

Example: the simulator answers "what would this plan do"; `CupyRunner.measure` takes the same pipeline
and the same plan to a GPU and answers with the same kind of `Trace`. Import what you need from
`wavesim_gpu.run.runner`, `wavesim_gpu.driver.device` and `wavesim_gpu.driver.compiler`; nothing here needs a
GPU to import.
"""

from importlib import import_module
from typing import Any

# The public names and their modules, imported on first use: PyTorch is loaded for those who ask for it.
_HOMES = {
    "FailedCallsError": "layers.calls",
    "Recording": "record",
    "check": "layers.calls",
    "column_parallel_linear": "torch.parallel",
    "mirror_semaphores": "hang.semaphore_mirror",
    "mlp": "layers.mlp",
    "moe": "torch.expert_layers",
    "record_launches": "hang.launch_recorder",
    "row_parallel_linear": "torch.parallel",
}
__all__ = [*_HOMES]  # noqa: PLE0604  # the names above


def __getattr__(name: str) -> Any:
    """A public name."""
    if name not in _HOMES:
        raise AttributeError(f"module 'wavesim_gpu' has no attribute {name!r}")
    return getattr(import_module(f"wavesim_gpu.{_HOMES[name]}"), name)
