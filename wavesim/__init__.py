"""wavesim: see, predict and prove what tile-level synchronisation of dependent GPU kernels does.

Names are imported on first use, so that describing kernels and running them on a GPU needs
neither simpy nor plotly.
"""

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from wavesim.html_display import fill_with

if TYPE_CHECKING:
    # What type checkers and editors see; a test holds it to the list below, which is what runs.
    from wavesim.codegen.cuda import generate as generate
    from wavesim.comparison import compare as compare
    from wavesim.costs.calibration import calibrate as calibrate
    from wavesim.costs.cost_model import CostModel as CostModel
    from wavesim.costs.cost_model import zero_cost as zero_cost
    from wavesim.costs.data_sheet import roofline as roofline
    from wavesim.errors import CompileError as CompileError
    from wavesim.errors import DeadlockError as DeadlockError
    from wavesim.errors import DescriptionError as DescriptionError
    from wavesim.errors import DeviceError as DeviceError
    from wavesim.errors import RecordingError as RecordingError
    from wavesim.errors import UnneededStageWarning as UnneededStageWarning
    from wavesim.errors import WavesimError as WavesimError
    from wavesim.model.dependency import Dependency as Dependency
    from wavesim.model.dependency import x as x
    from wavesim.model.dependency import y as y
    from wavesim.model.device import Device as Device
    from wavesim.model.kernel import Block as Block
    from wavesim.model.kernel import Grid as Grid
    from wavesim.model.kernel import Kernel as Kernel
    from wavesim.model.occupancy import Occupancy as Occupancy
    from wavesim.model.occupancy import occupancy_of as occupancy_of
    from wavesim.model.pipeline import Pipeline as Pipeline
    from wavesim.model.stage import Stage as Stage
    from wavesim.plan.launch import DependentLaunch as DependentLaunch
    from wavesim.plan.launch import OneStream as OneStream
    from wavesim.plan.launch import StreamPerStage as StreamPerStage
    from wavesim.plan.megakernel import Megakernel as Megakernel
    from wavesim.plan.order import ColumnMajor as ColumnMajor
    from wavesim.plan.order import CustomOrder as CustomOrder
    from wavesim.plan.order import Grouped as Grouped
    from wavesim.plan.order import Interleaved as Interleaved
    from wavesim.plan.order import Order as Order
    from wavesim.plan.order import Reversed as Reversed
    from wavesim.plan.order import RowMajor as RowMajor
    from wavesim.plan.plan import Plan as Plan
    from wavesim.plan.plan import SemaphoreSync as SemaphoreSync
    from wavesim.plan.plan import StreamSync as StreamSync
    from wavesim.plan.policy import CustomPolicy as CustomPolicy
    from wavesim.plan.policy import GridSync as GridSync
    from wavesim.plan.policy import Policy as Policy
    from wavesim.plan.policy import RowSync as RowSync
    from wavesim.plan.policy import TileSync as TileSync
    from wavesim.plan.schedule import Persistent as Persistent
    from wavesim.plan.schedule import TilePerBlock as TilePerBlock
    from wavesim.plan.stream_k import StreamK as StreamK
    from wavesim.plan.sync import KernelBoundary as KernelBoundary
    from wavesim.plan.sync import Semaphores as Semaphores
    from wavesim.predict.defaults import default_costs as default_costs
    from wavesim.predict.defaults import described_costs as described_costs
    from wavesim.predict.kernel_times import costs_from_kernel_times as costs_from_kernel_times
    from wavesim.predict.megakernel_design import design_megakernel as design_megakernel
    from wavesim.predict.recommendation import verdict_on as verdict_on
    from wavesim.safety.deadlock import safety_of as safety_of
    from wavesim.safety.verdict import SafetyVerdict as SafetyVerdict
    from wavesim.sim.simulation import simulate as simulate
    from wavesim.trace.difference import explain_difference as explain_difference
    from wavesim.trace.metrics import metrics_of as metrics_of
    from wavesim.trace.trace import Trace as Trace
    from wavesim.tuning.search import tune as tune
    from wavesim.view.perfetto import write_perfetto as write_perfetto
    from wavesim.view.safety_figure import safety_picture as safety_picture
    from wavesim.view.timeline_figure import timeline as timeline
    from wavesim.widgets.what_if import WhatIf as WhatIf
    from wavesim.work.convolution import Conv2D as Conv2D
    from wavesim.work.convolution.reads import conv_rows as conv_rows
    from wavesim.work.description.reader import Description as Description
    from wavesim.work.description.reader import load_description as load_description
    from wavesim.work.description.writer import write_description as write_description
    from wavesim.work.gemm import Gemm as Gemm
    from wavesim.work.gemm.reads import gemm_rows as gemm_rows
    from wavesim.workloads.attention import gpt3_attention as gpt3_attention
    from wavesim.workloads.catalogue import workload as workload
    from wavesim.workloads.convolutions import conv_layer as conv_layer
    from wavesim.workloads.decode_steps import decode_step as decode_step
    from wavesim.workloads.figure_one import toy as toy
    from wavesim.workloads.mlps import gpt3_mlp as gpt3_mlp
    from wavesim.workloads.mlps import llama_mlp as llama_mlp
    from wavesim.workloads.mlps import llama_mlp_three_gemms as llama_mlp_three_gemms
else:
    # Module: its public names.
    _HOMES = {
        "trace.difference": "explain_difference",
        "trace.metrics": "metrics_of",
        "safety.deadlock": "safety_of",
        "safety.verdict": "SafetyVerdict",
        "codegen.cuda": "generate",
        "comparison": "compare",
        "costs.calibration": "calibrate",
        "costs.cost_model": "CostModel zero_cost",
        "costs.data_sheet": "roofline",
        "errors": "CompileError DeadlockError DescriptionError DeviceError RecordingError "
        "UnneededStageWarning WavesimError",
        "model.dependency": "Dependency x y",
        "model.device": "Device",
        "model.kernel": "Block Grid Kernel",
        "model.occupancy": "Occupancy occupancy_of",
        "model.pipeline": "Pipeline",
        "model.stage": "Stage",
        "plan.launch": "DependentLaunch OneStream StreamPerStage",
        "plan.megakernel": "Megakernel",
        "plan.order": "ColumnMajor CustomOrder Grouped Interleaved Order Reversed RowMajor",
        "plan.plan": "Plan SemaphoreSync StreamSync",
        "plan.policy": "CustomPolicy GridSync Policy RowSync TileSync",
        "plan.schedule": "Persistent TilePerBlock",
        "plan.stream_k": "StreamK",
        "plan.sync": "KernelBoundary Semaphores",
        "predict.defaults": "default_costs described_costs",
        "predict.kernel_times": "costs_from_kernel_times",
        "predict.megakernel_design": "design_megakernel",
        "predict.recommendation": "verdict_on",
        "sim.simulation": "simulate",
        "trace.trace": "Trace",
        "tuning.search": "tune",
        "view.perfetto": "write_perfetto",
        "view.safety_figure": "safety_picture",
        "view.timeline_figure": "timeline",
        "widgets.what_if": "WhatIf",
        "work.convolution": "Conv2D",
        "work.convolution.reads": "conv_rows",
        "work.description.reader": "Description load_description",
        "work.description.writer": "write_description",
        "work.gemm": "Gemm",
        "work.gemm.reads": "gemm_rows",
        "workloads.attention": "gpt3_attention",
        "workloads.catalogue": "workload",
        "workloads.convolutions": "conv_layer",
        "workloads.decode_steps": "decode_step",
        "workloads.figure_one": "toy",
        "workloads.mlps": "gpt3_mlp llama_mlp llama_mlp_three_gemms",
    }
    _HOME = {name: f"wavesim.{module}" for module, names in _HOMES.items() for name in names.split()}

    __all__ = [*_HOME, "device"]  # noqa: PLE0604  # every entry is a name that __getattr__ serves

    def __getattr__(name: str) -> Any:
        from importlib import import_module  # noqa: PLC0415  # on first use, like all else

        if name not in _HOME:
            raise AttributeError(f"module 'wavesim' has no attribute {name!r}")
        try:
            return getattr(import_module(_HOME[name]), name)
        except ModuleNotFoundError as error:
            raise import_module("wavesim.errors").naming_extra(error) from None

    def __dir__() -> list[str]:
        return sorted(__all__)


def _draw_what_jupyter_shows() -> None:
    from wavesim.view import display  # noqa: F401, PLC0415  # it registers its pictures

    with suppress(ModuleNotFoundError):  # without ipywidgets, plotly shows timelines
        from wavesim.widgets import still  # noqa: F401, PLC0415  # as it does


fill_with(_draw_what_jupyter_shows)

__version__ = "1.0.0"


def device(name: str) -> "Device":
    """The catalogue's device of that name; `wavesim devices` lists them. Raises `DescriptionError`."""
    from wavesim.model.device import load  # noqa: PLC0415  # on first use, like all else

    return load(name)
