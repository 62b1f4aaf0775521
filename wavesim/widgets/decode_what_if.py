"""A what-if on a decode step in one kernel: model, batch, keys, SMs, and how far ahead an SM loads.

Example: Qwen2.5-0.5B with 192 KB of ring on each SM above, with 32 KB below: hatched are the waits of every
SM for every other, five a layer, and with a small ring the memory pauses in each of them.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from wavesim.model import device as devices
from wavesim.model.device import default_device
from wavesim.model.pipeline import Pipeline
from wavesim.plan.megakernel import CHUNK_BYTES, Megakernel
from wavesim.plan.plan import Plan
from wavesim.plan.policy import GridSync
from wavesim.plan.sync import Semaphores
from wavesim.sim.streamed_run import layer_ns, simulate_megakernel, stage_reports
from wavesim.trace.trace import Trace
from wavesim.widgets.explorer import menu, stops
from wavesim.widgets.plans_what_if import PlansWhatIf
from wavesim.workloads.decode_steps import decode_step
from wavesim.workloads.models import layered_models

BATCHES, CACHED = (1, 2, 4, 8), (128, 512, 2048, 8192)
SMS = (16, 33, 66, 99, 132)
RINGS_KB = (32, 48, 64, 96, 128, 160, 192)
LEAST_CHUNKS = 2  # of the ring beside which another is shown
LAYERS = 2


@dataclass(frozen=True)
class DecodeScenario:
    """One setting of all controls; `cached` are keys before the step, `ring_kb` is of each SM."""

    model: str = "qwen2.5-0.5b"
    batch: int = 1
    cached: int = 512
    sms: int = field(default_factory=lambda: default_device().sm_count)
    ring_kb: int = 192

    @property
    def pipeline(self) -> Pipeline:
        """Two layers in a row. Raises `DescriptionError`."""
        return decode_step(self.model, self.batch, self.cached, layers=LAYERS)

    def trace(self, ring_bytes: int) -> Trace:
        """Simulated with such a ring on each SM. Raises `DescriptionError` for one that does not fit."""
        schedule = Megakernel(ring_bytes=ring_bytes, groups=2, sms=self.sms)
        plan = Plan(schedule, sync=Semaphores(GridSync()))
        trace = simulate_megakernel(self.pipeline, plan, devices.default_device())
        label = f"{ring_bytes // 1024} KB ahead on each of {self.sms} SMs"
        return replace(trace, header=replace(trace.header, plan_label=label))


class DecodeWhatIf(PlansWhatIf):
    """The ring that the controls say, above the least."""

    scenario_type = DecodeScenario

    def _controls(self, first: DecodeScenario) -> tuple[Any, ...]:
        return (
            {
                "model": menu("Model", layered_models(), first.model),
                "batch": stops("Sequences", BATCHES, first.batch),
                "cached": stops("Keys cached", CACHED, first.cached),
                "sms": stops("SMs", SMS, first.sms),
                "ring_kb": stops("Ring of an SM (KB)", RINGS_KB, first.ring_kb),
            },
        )

    def _timelines(self) -> Sequence[Trace]:
        scenario = self.scenario
        self.trace = scenario.trace(scenario.ring_kb * 1024)
        self.short = scenario.trace(LEAST_CHUNKS * CHUNK_BYTES)
        return self.trace, self.short

    def _words(self) -> tuple[str, str]:
        reports = stage_reports(self.trace)[-len(stage_reports(self.trace)) // LAYERS :]
        roof_ns = max(1, sum(report.roof_ns for report in reports))
        times = [layer_ns(trace) for trace in (self.trace, self.short)]
        slowest = max(reports, key=lambda report: report.time_ns - report.roof_ns)
        beyond = (slowest.time_ns - slowest.roof_ns) / 1e3
        finding = (
            f"A layer takes {times[0] / 1e3:,.1f} µs, {times[0] / roof_ns:.2f} times one read of its bytes "
            f"({roof_ns / 1e3:,.1f} µs); with {LEAST_CHUNKS * CHUNK_BYTES // 1024} KB ahead "
            f"{times[1] / 1e3:,.1f} µs. "
            f"Most is lost in {slowest.stage.rpartition('_')[0]}: {beyond:,.1f} µs beyond its read."
        )
        source = "with constants fitted to our kernel's steps of one sequence (docs/mechanisms.md)"
        return finding, f"Simulated on {default_device().name}, {source}."
