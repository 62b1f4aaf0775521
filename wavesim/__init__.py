"""wavesim: see, predict and prove what tile-level synchronisation of dependent GPU kernels does.

Names are imported on first use, so that describing kernels and running them on a GPU needs
neither simpy nor plotly.
"""

from importlib import import_module
from typing import Any

_HOMES = {
    "wavesim.errors": (
        "CompileError",
        "DeadlockError",
        "DescriptionError",
        "DeviceError",
        "RecordingError",
        "UnneededStageWarning",
        "WavesimError",
    ),
    "wavesim.model.convolution": ("Conv2D", "conv_rows"),
    "wavesim.model.dependency": ("Dependency", "gemm_rows", "x", "y"),
    "wavesim.model.device": ("Device",),
    "wavesim.model.kernel": ("Block", "Gemm", "Grid", "Kernel"),
    "wavesim.model.occupancy": ("Occupancy", "occupancy_of"),
    "wavesim.plan.order": ("ColumnMajor", "CustomOrder", "Grouped", "Order", "Reversed", "RowMajor"),
    "wavesim.model.pipeline": ("Pipeline", "Stage"),
    "wavesim.plan.kernel_plans": ("DependentLaunch", "Persistent", "PersistentStream", "StreamK"),
    "wavesim.plan.plan": ("SemaphoreSync", "StreamSync"),
    "wavesim.plan.policy": ("CustomPolicy", "Policy", "RowSync", "TileSync"),
    "wavesim.costs.cost_model": ("CostModel", "roofline", "zero_cost"),
    "wavesim.costs.calibration": ("calibrate",),
    "wavesim.sim.simulation": ("simulate",),
    "wavesim.trace.trace": ("Trace",),
    "wavesim.workloads.catalogue": ("workload",),
    "wavesim.workloads.attention": ("gpt3_attention",),
    "wavesim.workloads.convolutions": ("conv_layer",),
    "wavesim.workloads.gpt3": ("gpt3_mlp",),
    "wavesim.workloads.llama": ("llama_mlp", "llama_mlp_three_gemms"),
    "wavesim.workloads.figure_one": ("toy",),
    "wavesim.analysis.metrics": ("metrics_of",),
    "wavesim.analysis.difference": ("explain_difference",),
    "wavesim.check.deadlock": ("SafetyVerdict", "safety_of"),
    "wavesim.view.safety_figure": ("safety_picture",),
    "wavesim.view.timeline_figure": ("timeline",),
    "wavesim.widgets.what_if": ("WhatIf",),
    "wavesim.comparison": ("compare",),
    "wavesim.codegen.cuda": ("generate",),
    "wavesim.tuning.search": ("tune",),
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}

__all__ = [*_HOME, "device"]  # noqa: PLE0604  # every entry is a name that __getattr__ serves
__version__ = "0.1.0"


def device(name: str) -> Any:
    """The catalogue's device of that name: "toy", "a100-80gb", "h200"... Raises `DescriptionError`."""
    return import_module("wavesim.model.device").load(name)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'wavesim' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
