"""What measures on a GPU, found by name so that nothing here imports it, and what was recorded before.

Example: `find_runner("auto")` is the installed package's runner where there is a GPU, else None.
"""

from collections.abc import Sequence
from importlib.metadata import entry_points
from typing import Literal, Protocol

from wavesim.errors import DescriptionError, DeviceError
from wavesim.model.device import Device
from wavesim.model.pipeline import Pipeline
from wavesim.plan.plan import Plan
from wavesim.recordings.shipped import RecordedCase, find_case
from wavesim.trace.trace import Trace

RUNNER_GROUP = "wavesim.runners"
UseGpu = Literal["auto", "never", "require"]


class Runner(Protocol):
    """What runs pipelines on a GPU: an argument, or an entry point of the group `wavesim.runners`.

    A runner may have a method `refusal(pipeline, plan)`: why its kernels do not run a plan, "" if they do.
    """

    def measure(self, pipeline: Pipeline, plans: Sequence[Plan], *, rounds: int = 20) -> list[Trace]:
        """One measured trace per plan, `rounds_ns` filled by interleaved, unrecorded rounds."""


def find_runner(use_gpu: UseGpu = "auto") -> Runner | None:
    """An installed runner that has a GPU to run on, or None; with "require" it raises `DeviceError`."""
    if use_gpu not in ("auto", "never", "require"):
        raise DescriptionError(f"use_gpu is {use_gpu!r}; it must be 'auto', 'never' or 'require'")
    if use_gpu == "never":
        return None
    reason = (
        f"no runner is installed (entry point group {RUNNER_GROUP!r}); in a checkout, pip install -e '.[gpu]'"
    )
    for entry in entry_points(group=RUNNER_GROUP):
        try:
            runner: Runner = entry.load()()
        except (DeviceError, ImportError) as error:
            reason = str(error)
        else:
            return runner
    if use_gpu == "require":
        raise DeviceError(reason)
    return None


def refusal_of(runner: Runner, pipeline: Pipeline, plan: Plan) -> str:
    """Why a runner does not run a plan, "" if it does; one that does not say runs streams and semaphores."""
    says = getattr(runner, "refusal", None)
    if says is not None:
        return str(says(pipeline, plan))
    is_stream = plan.is_stream_sync and not (plan.launch.is_graph or plan.launch.is_host)
    is_plain = is_stream or plan.launch.is_multi_stream
    return "" if is_plain else f"{plan.label}: {type(runner).__name__} does not say whether it runs this"


def described_measurement(trace: Trace) -> str:
    """Device, date, commit and rounds of a measured trace, in words."""
    head = trace.header
    made = [head.device["name"], head.date[:10], *([f"commit {head.commit[:7]}"] if head.commit else [])]
    return f"{', '.join(made)}, medians of {len(head.rounds_ns)} interleaved rounds"


def measured_traces(
    pipeline: Pipeline, plans: Sequence[Plan], device: Device, runner: Runner | None, rounds: int
) -> tuple[tuple[Trace | None, ...], str]:
    """(a measured trace or None per plan, where they come from in words); the first plan is the baseline.

    With a runner they are measured now, without one they are recordings of the same kernels.
    """
    if runner is not None:
        runs = [plan for plan in plans if not refusal_of(runner, pipeline, plan)]
        traces = dict(zip(map(plans.index, runs), runner.measure(pipeline, runs, rounds=rounds), strict=True))
        return tuple(map(traces.get, range(len(plans)))), f"live, {described_measurement(traces[0])}"
    recording = tuple(_recording(find_case(pipeline, device, plan.order.name), plan) for plan in plans)
    if recording[0] is not None:
        return recording, f"recorded, {described_measurement(recording[0])}"
    why = f"nothing: no recording of {pipeline.name} like this on {device.name}, and no GPU runner"
    return (None,) * len(plans), why


def _recording(case: RecordedCase | None, plan: Plan) -> Trace | None:
    is_recorded_form = not plan.orders and not plan.sync.edge_policies
    if case is None or not is_recorded_form or plan.name not in case.paths:
        return None
    return case.trace(plan.name)
