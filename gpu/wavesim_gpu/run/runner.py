"""The GPU runner: the same pipeline and plans as the simulator, measured, as the same traces.

Example: `CupyRunner().measure(pipeline, [stream, row, tile])` checks every plan's result against a float32
reference, times them in turns over many rounds with recording compiled out, then runs each once more
with recording for its trace.
"""

import statistics
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from wavesim.codegen.options import Option
from wavesim.errors import DescriptionError, WavesimError
from wavesim.model.device import Device
from wavesim.model.pipeline import Pipeline
from wavesim.plan.plan import Plan, StreamSync
from wavesim.trace.trace import Trace
from wavesim_gpu.cusync.sync_state import LIMIT_S
from wavesim_gpu.driver.clocks import Reading, Sampler
from wavesim_gpu.driver.compiler import Build
from wavesim_gpu.driver.device import query, require_cupy
from wavesim_gpu.kernels.backends import DEFAULT, backend_named, backends_of, require_computes
from wavesim_gpu.run.measured_trace import build_trace
from wavesim_gpu.run.operands import Operands, bind, random_operands
from wavesim_gpu.run.planned_kernels import compile_ahead, launched_safety
from wavesim_gpu.run.program import Program
from wavesim_gpu.run.references import is_right, reference, relative_errors
from wavesim_gpu.run.timing import Contender, interleaved_ns, run_in_turn

RECORDED_REPLAYS = 5
LEAD_NS = 60_000_000  # a sustained load settles the clock in a few tens of milliseconds


class WrongResultError(WavesimError, ArithmeticError):
    """A plan's outputs differ from the reference: no time of it means anything."""


@dataclass(frozen=True)
class OutputCheck:
    """Relative error per stage, whether all are within tolerance, whether semaphores ended as they must."""

    errors: Mapping[str, float]
    is_right: bool
    has_right_semaphores: bool

    @property
    def is_good(self) -> bool:
        """Right numbers and right semaphores."""
        return self.is_right and self.has_right_semaphores


@dataclass(frozen=True)
class Timing:
    """One plan's unrecorded, interleaved rounds, and the clock and power while they ran."""

    plan: Plan
    rounds_ns: tuple[int, ...]
    verdict: OutputCheck
    reading: Reading


class CupyRunner:
    """Runs pipelines of GEMM stages on the current GPU.

    `backend` computes the stages that name none. `limit_s` bounds every wait on the device: for how long what
    a block waits for may stand still, also while other programs hold the GPU. `is_graph` False launches on
    plain streams instead of replaying a CUDA graph; small kernels then measure the host. `follows_closely` is
    as for `Program`.
    """

    def __init__(
        self,
        *,
        limit_s: float = LIMIT_S,
        is_graph: bool = True,
        commit: str | None = None,
        backend: str = DEFAULT,
        follows_closely: bool = False,
    ) -> None:
        self._cupy = require_cupy()
        self.backend = backend_named(backend).name
        self.limit_ns = int(limit_s * 1e9)
        self.is_graph, self.follows_closely = is_graph, follows_closely
        self.commit = commit if commit is not None else current_commit()

    @property
    def device(self) -> Device:
        """The current GPU, as the simulator describes it."""
        return query()

    def measure(
        self, pipeline: Pipeline, plans: Sequence[Plan], *, rounds: int = 20, seed: int = 0
    ) -> list[Trace]:
        """One measured trace per plan, `header.rounds_ns` filled.

        Raises `WrongResultError`, `DeadlockError`, `DescriptionError` or `DeviceError`; a plan with
        wrong results is never timed.
        """
        operands = self.operands(pipeline, seed)
        timings = self.time(operands, plans, rounds=rounds)
        return self.record(operands, timings)

    def operands(self, pipeline: Pipeline, seed: int = 0) -> Operands:
        """Random inputs and weights for a pipeline, for whatever plan."""
        require_computes(pipeline, self.backend)
        chosen, plain = backends_of(pipeline, self.backend), StreamSync()
        partials = sum(chosen[stage.name].partial_bytes(stage.work, plain) for stage in pipeline.stages)
        return random_operands(pipeline, seed, partials)

    def refusal(self, pipeline: Pipeline, plan: Plan) -> str:
        """Why the stages' backends do not run a plan, "" if they do."""
        reasons = (backend.refusal(plan) for backend in backends_of(pipeline, self.backend).values())
        return next(filter(None, reasons), "")

    def run(
        self, pipeline: Pipeline, plan: Plan, inputs: Mapping[str, Any], weights: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Every stage's output (m, n) as float32, for given A of the first stages and B of all."""
        require_safe(pipeline, plan, self.device, self.backend)
        operands = bind(pipeline, inputs, weights)
        program = self.program(operands, plan)
        operands.poison(program.streams[0])
        self.launcher(program)()
        program.synchronize()
        return operands.outputs()

    def program(
        self,
        operands: Operands,
        plan: Plan,
        build: Build | None = None,
        options: tuple[Option, ...] | None = None,
        *,
        is_self_resetting: bool | None = None,
    ) -> Program:
        """The plan's launches over the operands; the rest as for `Program`."""
        return Program(
            operands.pipeline,
            plan,
            operands,
            build=build,
            limit_ns=self.limit_ns,
            default=self.backend,
            options=options,
            is_self_resetting=is_self_resetting,
            follows_closely=self.follows_closely,
        )

    def launcher(self, program: Program) -> Any:
        """What starts one run of the program: a graph replay, or plain launches."""
        is_graph = self.is_graph or program.plan.launch.is_graph
        return program.launcher() if is_graph else program.enqueue

    def contender(self, program: Program, repeats: int = 1) -> Contender:
        """The program as something to time: `repeats` runs in one graph."""
        return Contender(program.launcher(repeats), program.streams[0], repeats)

    def verdict(self, program: Program, launch: Any, expected: Mapping[str, Any]) -> OutputCheck:
        """Runs once on poisoned outputs and compares results and final semaphore values."""
        program.operands.poison(program.streams[0])
        launch()
        return self.verdict_on_last(program, expected)

    def verdict_on_last(self, program: Program, expected: Mapping[str, Any]) -> OutputCheck:
        """What the program's last run left: its results and final semaphore values compared.

        Raises `DeadlockError` if a wait ran out of time in any run since the last look.
        """
        program.synchronize()
        operands = program.operands
        errors = relative_errors(operands, expected)
        has_right_semaphores = bool((program.sync.values() == program.sync.finals).all())
        return OutputCheck(errors, is_right(operands, errors), has_right_semaphores)

    def time(self, operands: Operands, plans: Sequence[Plan], *, rounds: int = 20) -> list[Timing]:
        """Interleaved, unrecorded rounds of all plans, between two checks of each one's results."""
        for plan in plans:
            require_safe(operands.pipeline, plan, self.device, self.backend)
        compile_ahead(operands.pipeline, plans, (Build(),), self.backend)
        programs = [self.program(operands, plan) for plan in plans]
        launches = [self.launcher(program) for program in programs]
        expected = reference(operands, self.backend)
        verdicts = [self.verdict(*pair, expected) for pair in zip(programs, launches, strict=True)]
        for plan, verdict in zip(plans, verdicts, strict=True):
            _require_good(operands.pipeline, plan, verdict, "not timed")
        contenders = [
            Contender(launch, program.streams[0]) for launch, program in zip(launches, programs, strict=True)
        ]
        with Sampler() as sampler:
            times = interleaved_ns(contenders, rounds)
        for plan, program, launch in zip(plans, programs, launches, strict=True):
            program.synchronize()
            again = self.verdict(program, launch, expected)
            _require_good(operands.pipeline, plan, again, "after its timed rounds")
        return [
            Timing(plan, tuple(own), verdict, sampler.reading)
            for plan, own, verdict in zip(plans, times, verdicts, strict=True)
        ]

    def record(self, operands: Operands, timings: Sequence[Timing]) -> list[Trace]:
        """One trace per plan: of a few recorded runs the one with the median makespan.

        All plans run recorded in turn, right after unrecorded turns, so that they meet one another's clocks,
        caches and power as in the timed rounds.
        """
        build = Build(is_recording=True)
        compile_ahead(operands.pipeline, [timing.plan for timing in timings], (build,), self.backend)
        programs = [self.program(operands, timing.plan, build) for timing in timings]
        recorded = [Contender(self.launcher(program), program.streams[0]) for program in programs]
        plain = [self.program(operands, timing.plan) for timing in timings]
        turn = [Contender(self.launcher(program), program.streams[0]) for program in plain]
        turn_ns = sum(statistics.median(timing.rounds_ns) for timing in timings)
        lead = turn * max(1, round(LEAD_NS / turn_ns))
        result: list[list[Trace]] = [[] for _ in timings]
        for _ in range(RECORDED_REPLAYS):
            run_in_turn([*lead, *recorded])
            for program, timing, traces in zip(programs, timings, result, strict=True):
                program.synchronize()
                traces.append(build_trace(program, timing.rounds_ns, timing.reading, self._notes()))
        return [sorted(traces, key=lambda trace: trace.makespan_ns)[len(traces) // 2] for traces in result]

    def _notes(self) -> dict[str, str]:
        mode = "CUDA graph" if self.is_graph else "plain streams"
        return {"date": datetime.now(UTC).strftime("%Y-%m-%d"), "commit": self.commit, "mode": mode}


def require_safe(pipeline: Pipeline, plan: Plan, device: Device, default: str = DEFAULT) -> None:
    """Raises `DescriptionError` for a plan that the kernels do not run, or that can deadlock.

    Also behind a wait-kernel, which takes a slot itself; judged by the blocks and clusters that are launched.
    """
    verdict = launched_safety(pipeline, plan, device, default)
    if not verdict.is_safe:
        can_deadlock = verdict.worst is not None
        fix = ". Use wait_kernel=True" if can_deadlock and not plan.launch.wait_kernel else ""
        raise DescriptionError(f"{pipeline.name} under {plan.label}: {verdict.reason}{fix}")


def _require_good(pipeline: Pipeline, plan: Plan, verdict: OutputCheck, when: str) -> None:
    if not verdict.is_good:
        raise WrongResultError(
            f"{pipeline.name} under {plan.label}: relative errors {dict(verdict.errors)}, semaphores "
            f"{'right' if verdict.has_right_semaphores else 'wrong'}; {when}"
        )


def current_commit() -> str:
    """The checkout's commit, or "" outside one."""
    try:
        commit = subprocess.run(
            ["git", "rev-parse", "HEAD"],  # noqa: S607  # whichever git the user has
            cwd=Path(__file__).parent,
            capture_output=True,
            text=True,
            timeout=10,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return commit.stdout.strip()
