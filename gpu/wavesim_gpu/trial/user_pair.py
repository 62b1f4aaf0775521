"""The pair of kernels of a user's own file: how each is launched, the plans it can run, and what is right.

Example: a file with `description = "pair.toml"`, functions `producer()` and `consumer()` that enqueue one
kernel each, `plans = {"pdl+row": both}` and `check()`. Kernels may be CUDA C++, Triton or whatever launches.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wavesim.errors import DescriptionError
from wavesim.model.device import Device
from wavesim.model.pipeline import Pipeline
from wavesim.plan.parsing import parse_plan
from wavesim.plan.plan import Plan
from wavesim.safe_io.bounds import bounded_text, shown
from wavesim.work.description.reader import load_description
from wavesim_gpu.trial.user_model import LONGEST_NAME, module_of, told

STREAM, TOML = "stream", ".toml"
ADVICE = (
    "it defines `description` (a path or a Pipeline), `producer()` and `consumer()`, which enqueue a kernel "
    "each, `plans` (plan: function), `check()`, and `clear()` if outputs can be cleared"
)
Enqueue = Callable[[], Any]


@dataclass(frozen=True)
class UserPair:
    """Two kernels: what they are, each one's launch, and each plan's, on the stream that is current.

    `check()` raises or returns False where the outputs are wrong, `clear()` spoils them. `kernel_ns` and
    `device` are those of the description, which a measurement replaces.
    """

    place: str
    pipeline: Pipeline
    kernels: tuple[Enqueue, Enqueue]
    plans: Mapping[str, tuple[Plan, Enqueue]]
    check: Callable[[], Any]
    clear: Callable[[], Any]
    kernel_ns: Mapping[str, int]
    device: Device | None = None

    @property
    def programs(self) -> dict[str, Enqueue]:
        """What is checked and timed: stream sync, which is one kernel after the other, and every plan."""
        return {STREAM: self._one_after_the_other, **{name: run for name, (_, run) in self.plans.items()}}

    def _one_after_the_other(self) -> None:
        for enqueue in self.kernels:
            enqueue()


def load_user_pair(place: str) -> UserPair:
    """Runs the file, or the Python file beside a description. Raises `DescriptionError` in one line."""
    bounded_text("FILE", place, LONGEST_NAME, "pair.py")
    given = None
    if place.endswith(TOML):
        given, place = Path(place).absolute(), f"{place.removesuffix(TOML)}.py"
        if not Path(place).is_file():
            raise DescriptionError(
                f"{given.name} describes kernels, and {place} beside it has to launch them: it needs "
                "`producer()`, `consumer()`, `plans` and `check()`; `wavesim predict` only predicts"
            )
    module = told(place, lambda: module_of(place))
    description = given or _attribute(module, place, "description")
    device, kernel_ns = None, {}
    if isinstance(description, str | Path):
        read = load_description(_beside(place, Path(description)))
        pipeline, device, kernel_ns = read.pipeline, read.device, dict(read.kernel_ns)
    else:
        pipeline = description
    if not isinstance(pipeline, Pipeline) or len(pipeline.stages) != 2:
        raise DescriptionError(
            f"{place}: description is {shown(description)}; give a TOML file or a Pipeline of two stages"
        )
    kernels = _function(module, place, "producer"), _function(module, place, "consumer")
    plans = _plans(place, _attribute(module, place, "plans"))
    check, clear = _function(module, place, "check"), getattr(module, "clear", lambda: None)
    return UserPair(place, pipeline, kernels, plans, check, clear, kernel_ns, device)


def _beside(place: str, path: Path) -> Path:
    """A path as the file means it: from the file's own folder."""
    return path if path.is_absolute() else Path(place).resolve().parent / path


def _attribute(module: Any, place: str, name: str) -> Any:
    if not hasattr(module, name):
        raise DescriptionError(f"{place} defines no {name}; a file to try is right when {ADVICE}")
    return getattr(module, name)


def _function(module: Any, place: str, name: str) -> Callable[[], Any]:
    value = _attribute(module, place, name)
    if not callable(value):
        raise DescriptionError(f"{place}: {name} is {shown(value)}; it must be a function without arguments")
    return value


def _plans(place: str, plans: Any) -> dict[str, tuple[Plan, Enqueue]]:
    """Plans by their word and, behind a space, their tile order, as in "pdl+row grouped:4"."""
    if not isinstance(plans, Mapping) or not plans:
        raise DescriptionError(
            f"{place}: plans is {shown(plans)}; write {{'pdl+row': function}} with at least one plan"
        )
    known = {}
    for name, run in plans.items():
        if not isinstance(name, str) or not callable(run):
            raise DescriptionError(
                f"{place}: plans has {shown(name)}: {shown(run)}; write 'pdl+row': function"
            )
        word, _, order = name.partition(" ")
        plan = parse_plan(word, order or "row")
        if plan.is_stream_sync:
            raise DescriptionError(f"{place}: plans has {name!r}, which is timed anyway; leave it out")
        known[name] = plan, run
    return known
