"""A trial: a user's model as it is and with its MLPs swapped, compared, timed in turns, and left as it was.

Example: `try_model(load_user_model("model.py"), TrialOptions())` on a GPU; without one, what would be swapped
and what the simulator expects of it.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from wavesim.costs.device_costs import default_device
from wavesim.errors import DescriptionError, DeviceError, WavesimError
from wavesim.model.device import Device, load
from wavesim.profile.advice_text import findings
from wavesim.safe_io.escaping import one_line
from wavesim_gpu.driver.device import query
from wavesim_gpu.run.runner import WrongResultError
from wavesim_gpu.trial.mlps import MlpGroup, Swap, SwappedMlp, grouped, inputs_noted, measured
from wavesim_gpu.trial.outputs import OutputDifference, difference_of, kept_tensors
from wavesim_gpu.trial.profiled import installed_versions, profiled_advice
from wavesim_gpu.trial.step_times import (
    LEAVE,
    CapturedStep,
    StepGain,
    StepTimes,
    TimedStep,
    gain_of,
    interleaved_steps,
    saved_percent,
    verdict_of,
)
from wavesim_gpu.trial.user_model import UserModel

BEFORE, AGAIN, AFTER = "as it is", "as it is, again", "MLPs swapped"
COMPILED, COMPILED_AFTER = "torch.compile", "torch.compile, MLPs swapped"
SEED = 0
Say = Callable[[str], None]
Groups = list[tuple[MlpGroup, SwappedMlp]]  # of MLPs that are alike, each with one of them


@dataclass(frozen=True)
class TrialOptions:
    """How a trial is run. After `limit_s` nothing is begun; `device` is simulated where there is no GPU."""

    rounds: int = 20
    use_graph: bool = True
    with_compile: bool = False
    tune: bool = False
    limit_s: float = 300.0
    device: str | None = None


@dataclass(frozen=True)
class TrialResult:
    """What a trial found. `is_measured` is False where there was no GPU: then everything is simulated.

    `programs` are the whole step's times, `how` says in what; `gain` is None where none was timed.
    """

    place: str
    device: str
    date: str
    versions: dict[str, str]
    is_measured: bool
    verdict: str = ""
    groups: tuple[MlpGroup, ...] = ()
    kept: tuple[str, ...] = ()
    advice: tuple[str, ...] = ()
    difference: OutputDifference | None = None
    programs: tuple[StepTimes, ...] = ()
    how: str = ""
    gain: StepGain | None = None
    notes: tuple[str, ...] = ()

    @property
    def predicted_saving_ns(self) -> float:
        """What the simulator expects all swapped MLPs together to save over cuBLASLt, in one step."""
        return sum(
            len(group.names) * (group.choice.library_ns - group.choice.predicted_ns) for group in self.groups
        )


def try_model(user: UserModel, options: TrialOptions, say: Say = lambda _: None) -> TrialResult:
    """Runs the trial; whatever happens the model is as it was afterwards.

    Raises `DescriptionError` for a step that fails, changes weights or is not on the GPU, with the line of
    the user's file; `DeviceError` where the GPU cannot be used.
    """
    import torch  # noqa: PLC0415  # optional

    trial = _Trial(user, options, say)
    with _without_traces(user.model):
        return trial.on_gpu() if torch.cuda.is_available() else trial.simulated()


@contextmanager
def _without_traces(model: Any) -> Iterator[None]:
    """Puts back what steps change besides weights: gradients, and buffers such as running means."""
    import torch  # noqa: PLC0415  # there: the model is one of its modules

    gradients = [(parameter, parameter.grad) for parameter in model.parameters()]
    buffers = [(buffer, buffer.clone()) for buffer in model.buffers()]
    for parameter, _ in gradients:
        parameter.grad = None  # steps make their own, and those there keep their values
    try:
        yield
    finally:
        for parameter, gradient in gradients:
            parameter.grad = gradient
        with torch.no_grad():
            for buffer, value in buffers:
                buffer.copy_(value)


class _Trial:
    """One trial under way."""

    def __init__(self, user: UserModel, options: TrialOptions, say: Say) -> None:
        self._user, self._options, self._say = user, options, say
        self._ends_at = time.monotonic() + options.limit_s
        self._notes: list[str] = []

    def simulated(self) -> TrialResult:
        """What would be swapped on a device that is not here."""
        device = load(self._options.device or default_device())
        if self._options.tune or self._options.with_compile:
            self._notes.append("--tune and --compile need a GPU; nothing was tuned or compiled.")
        result = self._blank(device.name, is_measured=False)
        swap = self._swap(device)
        try:
            self._say("run once, on the CPU")
            groups = tuple(group for group, _ in self._groups(swap, device))
        finally:
            swap.undo()
        result = replace(result, groups=groups, kept=swap.kept, notes=tuple(self._notes))
        return replace(result, verdict=f"not measured, there is no GPU here; {_expected(result)}")

    def on_gpu(self) -> TrialResult:
        """The whole trial."""
        if self._options.device is not None:
            raise DescriptionError("--device is for machines without a GPU; this one has one: leave it out")
        self._require_on_gpu()
        device = query()
        result = self._blank(device.name, is_measured=True)
        self._say("run twice")
        reference = self._reference()
        result = replace(result, advice=self._advice())
        swap = self._swap(device)
        try:
            result = self._compared(replace(result, kept=swap.kept), swap, device, reference)
        finally:
            swap.undo()
        return replace(result, notes=tuple(self._notes))

    def _compared(
        self, result: TrialResult, swap: Swap, device: Device, reference: dict[str, Any]
    ) -> TrialResult:
        if not swap.mlps:
            return replace(result, verdict=f"{LEAVE}: there is no MLP that can be swapped")
        groups = self._groups(swap, device)
        if self._options.tune:
            groups = self._tuned(groups, swap)
        swap.use(is_swapped=True)
        self._say("run with the MLPs swapped")
        result = replace(result, groups=tuple(group for group, _ in groups))
        try:
            difference = difference_of(self._outputs(), reference)
        except DescriptionError as error:  # the same step as it is has run
            return replace(result, verdict=f"{LEAVE}: swapped, a step fails: {error}")
        result = replace(result, difference=difference)
        if not difference.is_small:
            return replace(result, verdict=_refused(difference))
        try:
            programs, how = self._timed(swap, reference)
        except WrongResultError as error:
            return replace(result, verdict=str(error))
        by_label = {times.label: times for times in programs}
        gain = gain_of(by_label[BEFORE], by_label[AGAIN], by_label[AFTER])
        verdict = verdict_of(gain) + _compiled_verdict(by_label, gain.noise)
        result = replace(result, programs=tuple(programs), how=how, gain=gain, verdict=verdict)
        return replace(result, groups=self._measured_groups(groups))

    def _blank(self, device: str, *, is_measured: bool) -> TrialResult:
        date = datetime.now(UTC).isoformat(timespec="seconds")
        return TrialResult(self._user.place, device, date, installed_versions(), is_measured)

    def _swap(self, device: Device) -> Swap:
        self._say("look for MLPs")
        return Swap(self._user.model, device)

    def _groups(self, swap: Swap, device: Device) -> Groups:
        """The MLPs in groups, after a run of the model as it was that shows their inputs."""
        swap.use(is_swapped=False)
        with inputs_noted(swap.mlps):
            self._user.run()
        return grouped(swap.mlps, device)

    def _tuned(self, groups: Groups, swap: Swap) -> Groups:
        """The groups with the ways that tuning finds at their own rows."""
        ways: dict[tuple[str, int], str] = {}
        for rows in sorted({group.shape.m for group, _ in groups}):
            self._say(f"tune the MLPs at {rows:,} rows")
            ways |= {(name, rows): way for name, way in swap.tune([rows]).items()}
        return [
            (replace(group, way=ways.get((mlp.name, group.shape.m), group.way)), mlp) for group, mlp in groups
        ]

    def _measured_groups(self, groups: Groups) -> tuple[MlpGroup, ...]:
        """The groups with the times of one of their MLPs alone, as far as there is time."""
        measured_groups = [group for group, _ in groups]
        for place, (group, mlp) in enumerate(groups):
            if self._is_late("the rest of the MLPs alone"):
                break
            self._say(f"time {mlp.name} alone")
            measured_groups[place] = measured(group, mlp, self._options.rounds)
        return tuple(measured_groups)

    def _is_late(self, what: str) -> bool:
        is_late = time.monotonic() > self._ends_at
        if is_late:
            self._notes.append(f"Not done within {self._options.limit_s:g} s: {what}.")
        return is_late

    def _require_on_gpu(self) -> None:
        parameter = next(self._user.model.parameters(), None)
        if parameter is not None and parameter.device.type != "cuda":
            raise DescriptionError(
                f"{self._user.place}: the model is on {parameter.device}; move it and its inputs: .to('cuda')"
            )

    def _outputs(self) -> dict[str, Any]:
        """A seeded step's output tensors."""
        import torch  # noqa: PLC0415  # optional

        devices = range(torch.cuda.device_count())
        with torch.random.fork_rng(devices=devices):
            torch.manual_seed(SEED)
            return kept_tensors(self._user.run())

    def _reference(self) -> dict[str, Any]:
        """The model's own outputs. Raises `DescriptionError` where they cannot be compared with others."""
        versions = {name: value._version for name, value in self._user.model.named_parameters()}  # noqa: SLF001  # how torch tells of changes in place
        reference = self._outputs()
        for name, value in self._user.model.named_parameters():
            if value._version != versions.get(name):  # noqa: SLF001  # as above
                raise DescriptionError(
                    f"{self._user.place}: a step changes the weights ({name}); give a step without the "
                    "optimizer: forward, or forward and backward"
                )
        if not reference:
            raise DescriptionError(
                f"{self._user.place}: a step returns no floating tensors to compare; return the outputs"
            )
        own = difference_of(self._outputs(), reference)
        if not own.is_small:
            raise DescriptionError(
                f"{self._user.place}: two steps as they are differ by {own.relative_error:.2g} with the same "
                "seed, so no swap can be compared; make the step repeatable, by model.eval() perhaps"
            )
        return reference

    def _advice(self) -> tuple[str, ...]:
        self._say("profile a step")
        try:
            return findings(profiled_advice(self._user))
        except (WavesimError, RuntimeError) as error:
            self._notes.append(f"No advice from a profile: {one_line(str(error))}.")
            return ()

    def _timed(self, swap: Swap, reference: dict[str, Any]) -> tuple[list[StepTimes], str]:
        """Times of the whole step in turns, and in what they were taken."""
        how, steps = "CUDA graphs", []
        if self._options.use_graph:
            try:
                steps = self._captured(swap, reference)
            except DeviceError as error:
                self._notes.append(f"Timed from Python: {one_line(str(error))}.")
        if not steps:
            how, steps = "calls from Python", self._eager(swap)
        self._say(f"time {len(steps)} programs in {how}, {self._options.rounds} rounds in turns")
        return interleaved_steps(steps, self._options.rounds, on_gpu=True), how

    def _captured(self, swap: Swap, reference: dict[str, Any]) -> list[TimedStep]:
        steps = []
        for label, is_swapped in ((BEFORE, False), (AGAIN, False), (AFTER, True)):
            swap.use(is_swapped=is_swapped)
            self._say(f"capture: {label}")
            captured = CapturedStep(self._user.run)
            difference = difference_of(kept_tensors(captured()), reference)
            if not difference.is_small and is_swapped:
                raise WrongResultError(_refused(difference))
            if not difference.is_small:
                raise DeviceError("a replay of the step gives other outputs than the step")
            steps.append(TimedStep(label, captured))
        if self._options.with_compile and not self._is_late("torch.compile"):
            steps += self._compiled(swap)
        return steps

    def _compiled(self, swap: Swap) -> list[TimedStep]:
        """The step under torch.compile, as far as it compiles; the reason is a note."""
        import torch  # noqa: PLC0415  # optional

        steps = []
        for label, is_swapped in ((COMPILED, False), (COMPILED_AFTER, True)):
            swap.use(is_swapped=is_swapped)
            self._say(f"compile: {label}")
            torch.compiler.reset()
            model = torch.compile(self._user.model, dynamic=False)
            user = replace(self._user, model=model)
            try:
                steps.append(TimedStep(label, CapturedStep(user.run)))
            except DeviceError as error:
                self._notes.append(f"{label}: {one_line(str(error))}.")
        return steps

    def _eager(self, swap: Swap) -> list[TimedStep]:
        if self._options.with_compile:
            self._notes.append("torch.compile is compared in CUDA graphs only; this step has none.")

        def step(label: str, *, is_swapped: bool) -> TimedStep:
            return TimedStep(label, self._user.run, lambda: swap.use(is_swapped=is_swapped))

        return [step(BEFORE, is_swapped=False), step(AGAIN, is_swapped=False), step(AFTER, is_swapped=True)]


def _compiled_verdict(programs: dict[str, StepTimes], noise: float) -> str:
    """What the swap gains under torch.compile, where both were timed; `noise` is the eager step's."""
    if COMPILED not in programs or COMPILED_AFTER not in programs:
        return ""
    saved = saved_percent(programs[COMPILED], programs[COMPILED_AFTER])
    return f"; under torch.compile: {verdict_of(StepGain(*saved, noise=noise))}"


def _expected(result: TrialResult) -> str:
    """What the simulator expects of the whole step."""
    if not result.groups:
        return "no MLP was found that can be swapped"
    if all(group.choice.basis == "none" for group in result.groups):
        return f"cuBLASLt computes the MLPs: {result.groups[0].choice.reason}"
    saved_us = result.predicted_saving_ns / 1e3
    saved = f"{saved_us:,.1f} us of a step" if saved_us > 0 else "nothing"
    return f"simulated for {result.device}: the MLPs save {saved} over cuBLASLt"


def _refused(difference: OutputDifference) -> str:
    return (
        f"{LEAVE}: numbers differ too much, not swapped: relative error {difference.relative_error:.2g}, "
        f"at most {difference.bound:g} may be"
    )
