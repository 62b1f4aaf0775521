"""What `simulate` and `predict` do with a megakernel: a plan whose stages share one kernel with work lists.

Example: `wavesim simulate llama-3-8b-decode-step --sync megakernel:ring=49152` says where a layer's time
goes; `wavesim predict docs/decode.toml`, whose `[plans]` name a megakernel, designs one, with reasons.
"""

import argparse
from typing import TYPE_CHECKING, Any

from wavesim.cli.pictures import write_pictures
from wavesim.cli.printing import print_result, progress
from wavesim.errors import DescriptionError
from wavesim.model.device import Device
from wavesim.model.pipeline import Pipeline
from wavesim.plan.parsing import parse_plan
from wavesim.plan.plan import Plan
from wavesim.work.description.reader import Description

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wavesim.predict.megakernel_design import MegakernelDesign
    from wavesim.sim.streamed_run import StageReport
    from wavesim.trace.trace import Trace

BASIS = "simulated, with constants fitted to our own kernel's one-row steps (docs/mechanisms.md, Megakernels)"


def names_megakernel(description: Description) -> bool:
    """Whether a file's `[plans]` name one. Raises `DescriptionError` for a word that is no plan."""
    return any(parse_plan(word).schedule.has_work_lists for word in description.syncs)


def simulate_megakernel_plan(layer: Pipeline, plan: Plan, device: Device, options: argparse.Namespace) -> int:
    """The plan, for a layer behind another one like it."""
    from wavesim.predict.megakernel_design import LAYERS
    from wavesim.sim.simulation import simulate
    from wavesim.workloads.decode_steps import in_a_row

    return _shown(layer, plan, device, simulate(in_a_row(layer, LAYERS), plan, device), options)


def predict_megakernel(description: Description, options: argparse.Namespace) -> int:
    """The kernel to build for a layer. Raises `DescriptionError` where the file has kernels' times."""
    from wavesim.predict.megakernel_design import design_megakernel

    if description.kernel_ns:
        raise DescriptionError(
            f"{description.pipeline.name}: kernel_us is of kernels that run one after the other, and [plans] "
            "name a megakernel; leave kernel_us out, or the megakernel"
        )
    device = description.device
    design = design_megakernel(description.pipeline, device, progress=progress("simulating", after_s=3.0))
    return _shown(design.layer, design.plan, device, design.trace, options, design)


def _shown(
    layer: Pipeline,
    plan: Plan,
    device: Device,
    trace: "Trace",
    options: argparse.Namespace,
    design: "MegakernelDesign | None" = None,
) -> int:
    from wavesim.safety.deadlock import safety_of
    from wavesim.sim.streamed_run import layer_ns, stage_reports
    from wavesim.view.decode_figures import time_by_stage

    reports = stage_reports(trace)[len(layer.stages) :]
    time_ns, roof_ns = layer_ns(trace), sum(report.roof_ns for report in reports)
    size, safety = sum(report.bytes for report in reports), safety_of(layer, plan, device)
    splits = {stage.name: stage.grid.z for stage in layer.stages if stage.grid.z > 1}
    head = (
        f"{layer.name} on {device.name}, {plan.name}: {time_ns / 1e3:.1f} us a layer, "
        f"{time_ns / max(1, roof_ns):.2f} times one read of its {size / 1e6:.1f} MB"
    )
    reasons = (
        [] if design is None else [f"Run: {_words(plan, splits)}", *(f"  {line}" for line in design.reasons)]
    )
    lines = [
        *reasons,
        head,
        *_table(reports),
        BASIS,
        safety.text if not safety.is_safe else f"safe: {safety.short}",
    ]
    write_pictures(options, head, [trace], None, lambda: [time_by_stage(trace)], notes=lines)
    document: dict[str, Any] = {
        "workload": layer.name,
        "device": device.name,
        "sync": plan.name,
        "splits": splits,
        "layer_ns": time_ns,
        "roof_ns": roof_ns,
        "ring_bytes": trace.header.parameters["ring_bytes"],
        "stages": [vars(report) for report in reports],
        "basis": BASIS,
        "safety": safety.as_json(),
    }
    if design is not None:
        document["tried"] = [vars(kernel) for kernel in design.tried]
    return print_result(options, document, "\n".join(lines))


def _words(plan: Plan, splits: dict[str, int]) -> str:
    return ", ".join([plan.name, *(f"{stage} in {count} splits" for stage, count in splits.items())])


def _table(reports: "Sequence[StageReport]") -> list[str]:
    rows = [f"{'stage':<16}{'us':>8}{'roof':>8}{'waits':>8}{'stalls':>8}{'ring KB':>9}"]
    for report in reports:
        times = (report.time_ns, report.roof_ns, report.wait_ns, report.stall_ns)
        numbers = "".join(f"{value / 1e3:>8.1f}" for value in times)
        rows.append(f"{report.stage:<16}{numbers}{report.ring_bytes / 1024:>9.0f}")
    return [
        *rows,
        "roof: one read of its bytes; waits, stalls for bytes, ring when it begins: means of the SMs",
    ]
