"""Launches: when a stage's kernel starts. After the one before, on a stream of its own, or ahead of its turn.

Example: on one stream the second GEMM starts when the first is done; by dependent launch its blocks fill free
slots as soon as every block of the first has started; on two streams a wait-kernel holds them back until
then.
"""

from abc import ABC
from dataclasses import dataclass, replace
from enum import Enum
from typing import ClassVar, Literal, get_args

from wavesim.errors import DescriptionError
from wavesim.plan.parts import PlanPart, Traits, require_flag

Submission = Literal["stream", "graph", "host"]


class LaunchTurn(Enum):
    """When a kernel may start, by the kernel launched just before it."""

    AT_ONCE = "at once"
    AFTER_START = "once every block of the kernel before has started"
    AFTER_END = "once the kernel before has ended"

    @property
    def is_at_once(self) -> bool:
        """Whether it depends on no other kernel."""
        return self is LaunchTurn.AT_ONCE

    @property
    def is_early(self) -> bool:
        """Whether the kernel before may still run."""
        return self is LaunchTurn.AFTER_START

    @property
    def is_after_end(self) -> bool:
        """Whether the kernel before has ended."""
        return self is LaunchTurn.AFTER_END


class Launch(PlanPart, ABC):
    """When a stage's kernel starts.

    `turn`: when a kernel that is not the first may start; a plan may put one off (`Plan.turn_of`).
    """

    turn: ClassVar[LaunchTurn] = LaunchTurn.AFTER_END
    is_multi_stream: ClassVar[bool] = False

    @property
    def is_dependent(self) -> bool:
        """Whether kernels start ahead of their turn, by programmatic dependent launch."""
        return self.turn.is_early

    @property
    def submission(self) -> Submission:
        """How kernels reach the device."""
        return "stream"

    @property
    def is_graph(self) -> bool:
        """Whether a CUDA graph launches all kernels at once."""
        return self.submission == "graph"

    @property
    def is_host(self) -> bool:
        """Whether the host launches kernels one by one."""
        return self.submission == "host"

    @property
    def wait_kernel(self) -> bool:
        """Whether ahead of each consumer one block waits until its producers have started."""
        return False

    @property
    def head_start(self) -> int:
        """Consumer blocks that reach the device before the producer's first."""
        return 0

    @property
    def without_wait_kernel(self) -> "Launch":
        """The same launch with nothing that holds consumers back."""
        return self


@dataclass(frozen=True, repr=False)
class OneStream(Launch):
    """All kernels on one stream, each after the whole of the one before.

    `submission` says how they reach the device: "stream" takes `CostModel.launch_ns` between two, "graph" is
    a CUDA graph (all at once), "host" launches one by one (`CostModel.host_ns` between two). Our recordings
    of "stream" were made in CUDA graphs, so under their costs it equals "graph".
    """

    submission: Submission = "stream"

    def __post_init__(self) -> None:
        if self.submission not in get_args(Submission):
            known = ", ".join(get_args(Submission))
            raise DescriptionError(f"OneStream: submission is {self.submission!r}; it must be one of {known}")

    @property
    def word(self) -> str:
        return "one-stream" if self.submission == "stream" else self.submission

    @property
    def text(self) -> str:
        return {"stream": "", "graph": "in a CUDA graph", "host": "launched one by one"}[self.submission]

    @property
    def caveat(self) -> str:
        rate = "4.5 us per launch from Python was measured once, with sketch kernels; predicted only"
        return rate if self.submission == "host" else ""

    @property
    def why_safe(self) -> str:
        return "a kernel's blocks are issued after the kernels that they wait for have ended"


@dataclass(frozen=True, repr=False)
class StreamPerStage(Launch):
    """Every stage on a stream of its own (cuSync).

    `wait_kernel` keeps a consumer's blocks from being issued before its producers have started. `head_start`
    (simulator only, without the wait-kernel): blocks of the consumer that reach the device before the
    producer's first; what a race between two streams can do.
    """

    wait_kernel: bool = True
    head_start: int = 0

    turn: ClassVar[LaunchTurn] = LaunchTurn.AT_ONCE
    is_multi_stream: ClassVar[bool] = True

    def __post_init__(self) -> None:
        require_flag("StreamPerStage", wait_kernel=self.wait_kernel)
        is_count = isinstance(self.head_start, int) and not isinstance(self.head_start, bool)
        if not is_count or self.head_start < 0:
            raise DescriptionError(
                f"StreamPerStage: head_start is {self.head_start!r}; it must be an integer of at least 0"
            )
        if self.head_start and self.wait_kernel:
            raise DescriptionError(
                f"StreamPerStage: head_start is {self.head_start} but the wait-kernel rules that out; "
                "set wait_kernel=False"
            )

    @property
    def without_wait_kernel(self) -> Launch:
        return replace(self, wait_kernel=False)

    @property
    def word(self) -> str:
        settings = "" if self.wait_kernel else ":no-wait-kernel"
        return f"streams{settings}" + (f":{self.head_start}" if self.head_start else "")

    @property
    def text(self) -> str:
        first = f", {self.head_start} consumer blocks first" if self.head_start else ""
        return "" if self.wait_kernel else f"no wait-kernel{first}"

    def refusal(self, traits: Traits) -> str:
        if traits.is_fused:
            return "one kernel for all stages is one launch. Use OneStream()"
        if not traits.has_semaphores:
            return "nothing would order the streams. Use Semaphores(RowSync()), or OneStream()"
        return ""


@dataclass(frozen=True)
class DependentLaunch(Launch):
    """One stream with programmatic dependent launch (PDL): kernels overlap.

    A kernel's blocks fill free slots once every block of the kernel before has started (its first instruction
    is `griddepcontrol.launch_dependents`). With `KernelBoundary()` each block does the plan's `prefetch`
    share of its work and then waits until the whole grid before it has ended (`griddepcontrol.wait`); with
    `Semaphores(...)` it waits for tiles instead, as on streams of their own, and needs neither wait-kernel
    nor second stream. A kernel that does not read the one just before starts when that has ended
    (`Plan.turn_of`). Source: CUDA programming guide, Programmatic Dependent Launch.
    """

    turn: ClassVar[LaunchTurn] = LaunchTurn.AFTER_START

    @property
    def word(self) -> str:
        return "pdl"

    @property
    def text(self) -> str:
        return "dependent launch (PDL)"

    @property
    def why_safe(self) -> str:
        return "a kernel's blocks are issued after all blocks of the kernel that they wait for"

    @property
    def caveat(self) -> str:
        return "dependent launch is scored on few kernels (`wavesim validate`)"

    def refusal(self, traits: Traits) -> str:
        if traits.is_fused:
            return "one kernel for all stages has no kernel to overlap with. Use OneStream()"
        return ""
