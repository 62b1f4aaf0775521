"""What the kernels of a stage declare and compute, whatever the stage does, so that the runner knows none by
name.

Example: the attention backend says that it computes `Attention`, under which plans, what its launch is, and
which parameters come after `cusync::StageParams` for operands that lie at given places. What its tiles read
and write the work itself says (`wavesim.model.regions`). A GEMM's backend says more: `backend.py`.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from wavesim.errors import DescriptionError
from wavesim.model.device import Device
from wavesim.model.pipeline import Pipeline
from wavesim.model.stage import Stage
from wavesim.plan.plan import Plan
from wavesim_gpu.driver.kernel_launch import KernelLaunch

PARTS = ("schedule", "launch", "sync")
SEMAPHORES = "semaphores"  # every synchronisation with semaphores, whatever its policy
MOVED_BYTES = 16  # by one load, store or asynchronous copy, and what TMA begins at


@dataclass(frozen=True)
class Combination:
    """Plan parts that a backend runs together, by the words that they are stored as.

    `syncs` may hold `SEMAPHORES` for all policies.
    """

    schedules: tuple[str, ...]
    launches: tuple[str, ...]
    syncs: tuple[str, ...]

    def words(self, part: int) -> tuple[str, ...]:
        """Words of the schedules (0), launches (1) or syncs (2)."""
        return (self.schedules, self.launches, self.syncs)[part]


def combinations(*schedules: str, has_dependent_launch: bool = True) -> tuple[Combination, Combination]:
    """What most kernels run: kernels that follow each other, and all semaphores."""
    early = ("pdl",) if has_dependent_launch else ()
    return (
        Combination(schedules, ("one-stream", "graph", *early), ("boundary",)),
        Combination(schedules, ("streams", "streams:no-wait-kernel", *early), (SEMAPHORES,)),
    )


def reasons_of_a_tile_per_block(about_splits: str) -> dict[str, str]:
    """Why kernels whose blocks compute one tile each do not run other schedules, nor the host's launches."""
    return {
        "persistent": "its blocks compute one tile each",
        "fused": "its kernels compute one stage each",
        "stream-k": about_splits,
        "stream-k-in-order": about_splits,
        "host": "the runner queues launches ahead of the GPU; simulate() takes this one",
    }


@dataclass(frozen=True)
class OperandPlace:
    """Where an operand begins on the device, and how many elements lie from one row to the next."""

    address: int
    row_stride: int


def require_aligned(owner: str, name: str, place: OperandPlace) -> None:
    """Raises `DescriptionError` unless all rows of an operand, of 16 bits an element, begin at 16 bytes."""
    for what, value, unit, units in (
        ("address", place.address, MOVED_BYTES, "bytes"),
        ("row stride", place.row_stride, MOVED_BYTES // 2, "elements"),
    ):
        if value % unit:
            raise DescriptionError(
                f"{owner}: the {what} of {name} is {value}; 16 bytes are moved at once, which needs a "
                f"multiple of {unit} {units}. Align it"
            )


@dataclass(frozen=True)
class Scratch:
    """Device memory of a stage's own: `partials` as many bytes as it asked for, zeroed once and after an
    abort; `tickets`, a 32-bit word per tile of a grid with splits, zero before each run.
    """

    partials: int = 0
    tickets: int = 0


class StageBackend(ABC):
    """Kernels of one source file, which includes the generated header as <generated.cuh>.

    `works` are the classes of `Stage.work` that it computes, `family` the word by which a user asks for it
    and its like ("portable" runs from sm_80 on). `runs` are the combinations of plan parts that it runs;
    `reasons` says of the words that it does not run why, and what to use. With `waits_by_tile` each tile has
    a wait schedule (`cusync::TileStage`), else all tiles of a row share one. A plan's `prefetch` is what the
    simulator assumes: how much a block of these kernels loads before it waits follows from its shared memory.
    With `resets_tickets` the kernels leave the tickets of split K at zero themselves. With `begins_calls` one
    that is launched before what is ahead of it in the stream has ended waits for that, where it is told to,
    before it touches memory (`begins_call` in kernels/gemm/sm90/block.cuh).
    """

    name: ClassVar[str]
    family: ClassVar[str] = ""
    source: ClassVar[Path]
    works: ClassVar[tuple[type, ...]]
    waits_by_tile: ClassVar[bool] = True
    resets_tickets: ClassVar[bool] = False
    begins_calls: ClassVar[bool] = False
    runs: ClassVar[tuple[Combination, ...]]
    reasons: ClassVar[Mapping[str, str]] = {}

    def refusal(self, plan: Plan) -> str:
        """Why it does not run a plan, and the fix, in one line; "" if it does."""
        words, left = plan_words(plan), self.runs
        for part, word in enumerate(words):
            result = tuple(entry for entry in left if word in entry.words(part))
            if not result:
                why = self.reasons.get(word) or self.reasons.get(word.partition(":")[0])
                beside = f" with {' and '.join(words[:part])}" if part else ""
                why = why or f"{PARTS[part]} {word!r} is not among what its kernels do{beside}"
                return (
                    f"{plan.label}: backend {self.name!r} does not run {plan.parts[part]!r}: {why}. Use "
                    f"{PARTS[part]} {' or '.join(_instead(left, part, words))}"
                )
            left = result
        return ""

    @abstractmethod
    def check(self, work: Any, plan: Plan | None = None) -> None:
        """Raises `DescriptionError`, with the fix, for work that it cannot compute, or not under a plan."""

    def check_stage(self, pipeline: Pipeline, stage: Stage, plan: Plan) -> None:  # noqa: B027  # most need none
        """Raises `DescriptionError`, with the fix, for other stages that its kernel cannot run after."""

    @abstractmethod
    def launch(self, work: Any, plan: Plan, device: Device) -> KernelLaunch:
        """How to launch the kernel. Raises as `check` does, and `DeviceError`."""

    @abstractmethod
    def stage_arguments(
        self, work: Any, plan: Plan, places: Mapping[str, OperandPlace], scratch: Scratch
    ) -> tuple[Any, ...]:
        """NumPy scalars or records: the kernel's parameters after the first, for operands at `places`."""

    @abstractmethod
    def reference(self, work: Any, arrays: Mapping[str, Any]) -> Mapping[str, Any]:
        """What the stage writes, float32, from its operands as float32 CuPy arrays of their shapes."""

    def partial_bytes(self, work: Any, plan: Plan) -> int:
        """Bytes of scratch that it needs under a plan; 0 without."""
        return 0


def plan_words(plan: Plan) -> tuple[str, str, str]:
    """A plan's schedule, launch and sync as `Combination` has them."""
    sync = SEMAPHORES if plan.sync.has_semaphores else plan.sync.word
    return plan.schedule.word, plan.launch.word, sync


def _instead(left: Sequence[Combination], part: int, words: Sequence[str]) -> list[str]:
    """What to use for a part: where possible words that go with the plan's parts after it."""
    fitting = [
        entry
        for entry in left
        if all(words[later] in entry.words(later) for later in range(part + 1, len(words)))
    ]
    return list(dict.fromkeys(word for entry in fitting or left for word in entry.words(part)))
