"""The four programs of a model step, made, compared and timed: torch and torch.compile, swapped or not.

Example: at 512 tokens each program is captured in a CUDA graph; its logits are compared with torch's; then 20
rounds of all four in turns. A program that cannot be made says why and the others go on.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from wavesim.errors import WavesimError
from wavesim.safe_io.escaping import one_line
from wavesim_gpu.evaluation.stack_models import Phase, StackShape, step_of
from wavesim_gpu.runner import WrongResultError
from wavesim_gpu.trial.step_times import CapturedStep, TimedStep, interleaved_steps

TORCH, SWAPPED = "torch", "torch, MLPs swapped"
COMPILED, COMPILED_SWAPPED = "torch.compile", "torch.compile, MLPs swapped"
PROGRAMS = (TORCH, SWAPPED, COMPILED, COMPILED_SWAPPED)
LONGEST_MESSAGE = 400
MOST_ERROR = 0.05  # of the logits, relative: rounding in bfloat16 gives about a hundredth over four layers


@dataclass
class StackModels:
    """A model and a copy of it whose MLPs are swapped, or why there is none."""

    plain: Any
    swapped: Any
    report: str
    failure: str = ""


def swapped_models(model: Any, rows: tuple[int, ...], *, tune: bool) -> StackModels:
    """The model, and its copy given to `wavesim_gpu.torch.optimize`."""
    try:
        from wavesim_gpu.torch import optimize  # noqa: PLC0415  # optional, as is torch

        copy = deepcopy(model)
        report = optimize(copy, tokens=rows, tune=tune)
    except Exception as error:  # noqa: BLE001  # it is recorded, and the others are timed
        return StackModels(model, None, "", _message(error))
    return StackModels(model, copy, str(report))


def measure_phase(
    models: StackModels, stack: StackShape, phase: Phase, *, device: str, rounds: int, with_compile: bool
) -> dict[str, dict[str, Any]]:
    """What became of each program at one step: times, logits' differences from torch's, or "failed"."""
    step = step_of(stack, phase, device)
    on_gpu = device != "cpu"
    found: dict[str, dict[str, Any]] = {}
    timed, reference = [], None
    with _fresh_compiler():
        for label in PROGRAMS if with_compile else PROGRAMS[:2]:
            began = time.monotonic()
            try:
                run = _program(models, label, step, on_gpu=on_gpu)
                logits = run().clone()
                differs = difference(logits, logits if reference is None else reference)
                _require_right(differs)
            except Exception as error:  # noqa: BLE001  # as above
                found[label] = {"failed": _message(error)}
                continue
            reference = logits if reference is None else reference
            found[label] = {"made_s": round(time.monotonic() - began, 2), **differs}
            timed.append(TimedStep(label, run))
        for times in interleaved_steps(timed, rounds, on_gpu=on_gpu):
            found[times.label] |= {"times_ns": list(times.times_ns), "repeats": times.repeats}
    return found


def difference(logits: Any, reference: Any) -> dict[str, float]:
    """Of two tensors of logits: the relative error in the Euclidean norm, and where the largest agree."""
    one, other = logits.float(), reference.float()
    error = (one - other).norm() / other.norm()
    agreement = (one.argmax(-1) == other.argmax(-1)).float().mean()
    return {"relative_error": float(error), "argmax_agreement": float(agreement)}


def _require_right(differs: dict[str, float]) -> None:
    """Raises `WrongResultError`, also for logits that are not finite: no wrong program is timed."""
    error = differs["relative_error"]
    if not error <= MOST_ERROR:
        raise WrongResultError(
            f"the logits differ by {error:.3g} from torch's; at most {MOST_ERROR:g} may be"
        )


def _program(
    models: StackModels, label: str, step: Callable[[Any], Any], *, on_gpu: bool
) -> Callable[[], Any]:
    """The step under one program, captured where there is a GPU. Raises whatever making it raises."""
    import torch  # noqa: PLC0415  # optional

    is_swapped = label in (SWAPPED, COMPILED_SWAPPED)
    if is_swapped and models.swapped is None:
        raise WavesimError(models.failure)
    model = models.swapped if is_swapped else models.plain
    if label in (COMPILED, COMPILED_SWAPPED):
        model = torch.compile(model, dynamic=False)
    return CapturedStep(lambda: step(model)) if on_gpu else lambda: step(model)


@contextmanager
def _fresh_compiler() -> Iterator[None]:
    """Drops what torch.compile has made before and after: it stops after eight shapes of one function."""
    import torch  # noqa: PLC0415  # optional

    torch.compiler.reset()
    try:
        yield
    finally:
        torch.compiler.reset()


def _message(error: Exception) -> str:
    return one_line(f"{type(error).__name__}: {error}", LONGEST_MESSAGE)
