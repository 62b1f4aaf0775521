"""The MLPs of a model that can be swapped: which, at how many rows, what is predicted of them and measured.

Example: Llama's 32 MLPs are one group, as shapes and rows are the same. One of them is timed alone, as it was
and swapped, on the input that it had in the user's own step.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from wavesim.errors import DescriptionError, WavesimError
from wavesim.model.device import Device
from wavesim.safe_io.escaping import one_line
from wavesim_gpu.layers.choose import Choice, choose
from wavesim_gpu.layers.description import MlpShape
from wavesim_gpu.trial.step_times import CapturedStep, StepTimes, TimedStep, interleaved_steps


@dataclass
class SwappedMlp:
    """One MLP: its module as it was and the one in its place; `inputs` are those of the user's step."""

    name: str
    original: Any
    swapped: Any
    shape: MlpShape
    inputs: Any = None

    @property
    def rows(self) -> int:
        """Rows of the input in the user's step, 0 where it was not called with one tensor."""
        return 0 if self.inputs is None else self.inputs.numel() // self.inputs.shape[-1]


@dataclass(frozen=True)
class MlpGroup:
    """MLPs that are alike: what is simulated of one, the way it takes, its times where they were measured."""

    names: tuple[str, ...]
    shape: MlpShape
    choice: Choice
    way: str
    before: StepTimes | None = None
    after: StepTimes | None = None
    note: str = ""


class Swap:
    """A model's MLPs swapped, which `use` turns on and off; `undo` leaves the model as it was.

    Raises `DescriptionError` where the model's MLPs are swapped already.
    """

    def __init__(self, model: Any, device: Device) -> None:
        from wavesim_gpu.torch import optimize, restore  # noqa: PLC0415  # needs torch, which is optional

        self._model, self._optimize, self._restore = model, optimize, restore
        before = dict(model.named_modules())
        try:
            report = optimize(model, device=device)
            self.mlps = [
                SwappedMlp(block.name, before[block.name], model.get_submodule(block.name), block.shape)
                for block in report.swapped
            ]
        except BaseException:
            restore(model)
            raise
        self.kept = tuple(f"{block.name} ({block.kind}): {block.reason}" for block in report.kept)
        if any(mlp.original is mlp.swapped for mlp in self.mlps):
            raise DescriptionError("the model's MLPs are swapped already; give the model as it was")

    def use(self, *, is_swapped: bool) -> None:
        """Puts the swapped modules in their places, or the original ones."""
        both = [
            (mlp.original, mlp.swapped) if is_swapped else (mlp.swapped, mlp.original) for mlp in self.mlps
        ]
        instead = {id(here): other for here, other in both}
        for parent in list(self._model.modules()):
            for name, child in parent._modules.items():  # noqa: SLF001  # children leave out a second place
                if id(child) in instead:
                    parent._modules[name] = instead[id(child)]  # noqa: SLF001  # as above

    def tune(self, rows: Sequence[int]) -> dict[str, str]:
        """Measures the best ways at these numbers of rows; returns the way at the first by MLP's name."""
        self.use(is_swapped=True)
        report = self._optimize(self._model, tuple(rows), tune=True)
        return {block.name: choice.label for block in report.swapped for choice in block.choices[:1]}

    def undo(self) -> None:
        """Leaves the model as it was."""
        self.use(is_swapped=True)  # as `restore` expects it
        self._restore(self._model)


@contextmanager
def inputs_noted(mlps: Sequence[SwappedMlp]) -> Iterator[None]:
    """Keeps the first input of every original module that is called with one tensor alone."""
    import torch  # noqa: PLC0415  # optional

    def note(mlp: SwappedMlp) -> Callable[..., None]:
        def hook(_module: Any, arguments: tuple[Any, ...], named: dict[str, Any]) -> None:
            is_plain = len(arguments) == 1 and not named and isinstance(arguments[0], torch.Tensor)
            if is_plain and mlp.inputs is None:
                mlp.inputs = arguments[0].detach()

        return hook

    handles = [mlp.original.register_forward_pre_hook(note(mlp), with_kwargs=True) for mlp in mlps]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def grouped(mlps: Sequence[SwappedMlp], device: Device) -> list[tuple[MlpGroup, SwappedMlp]]:
    """MLPs that are alike, at the rows of their inputs, in the model's order; each group with one of them."""
    groups: dict[tuple[MlpShape, type], list[SwappedMlp]] = {}
    for mlp in mlps:
        shape = replace(mlp.shape, m=mlp.rows or mlp.shape.m)
        groups.setdefault((shape, type(mlp.original)), []).append(mlp)
    result = []
    for (shape, _), alike in groups.items():
        choice = choose(shape, device)
        names = tuple(mlp.name for mlp in alike)
        result.append((MlpGroup(names, shape, choice, choice.label), alike[0]))
    return result


def measured(group: MlpGroup, mlp: SwappedMlp, rounds: int) -> MlpGroup:
    """The group with one MLP's times in CUDA graphs, as it was and swapped, in turns."""
    import torch  # noqa: PLC0415  # optional

    if mlp.inputs is None:
        return replace(group, note="not measured alone: it is not called with one tensor")
    inputs = mlp.inputs

    def step(module: Any) -> Callable[[], Any]:
        def run() -> Any:
            with torch.no_grad():
                return module(inputs)

        return run

    try:
        steps = [
            TimedStep("before", CapturedStep(step(mlp.original))),
            TimedStep("after", CapturedStep(step(mlp.swapped))),
        ]
        before, after = interleaved_steps(steps, rounds, on_gpu=True)
    except WavesimError as error:
        return replace(group, note=f"not measured alone: {one_line(str(error))}")
    return replace(group, before=before, after=after)
