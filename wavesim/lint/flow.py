"""What the control and data flow of a kernel say: what precedes what, in which thread, from which parameter.

Example: in `flow = Flow(kernel)`, `flow.path_without(wait, load, is_fence)` is None where every path from the
wait to the load passes a fence, and otherwise such a path, to be shown.

Instructions are named by their index in `kernel.instructions`; `len(kernel.instructions)` is the end.
"""

from collections.abc import Callable
from functools import cached_property

from wavesim.lint.addresses import AddressRoots
from wavesim.lint.blocks import ControlFlow
from wavesim.lint.control import Control
from wavesim.lint.data_flow import DataFlow
from wavesim.lint.effort import Effort
from wavesim.lint.instruction import Instruction
from wavesim.lint.kernel_code import KernelCode
from wavesim.lint.loops import CodeLoop, loops_of
from wavesim.lint.one_thread import OneThread
from wavesim.lint.values import Values

__all__ = ["CodeLoop", "Flow"]


class Flow:
    """All questions about one kernel; each answer is worked out when it is first asked for.

    Any may raise `RecordingError`: a kernel that branches too much to be followed (see `effort`).
    """

    def __init__(self, kernel: KernelCode) -> None:
        self.kernel = kernel
        self._control_flow = flow = ControlFlow(kernel, Effort(f"kernel {kernel.name}"))
        self._data = DataFlow(flow)
        self._values = Values(self._data)
        self._addresses = AddressRoots(self._data, self._values, kernel)
        self._control = Control(flow)
        self._one_thread = OneThread(self._data, self._control, kernel.threads)
        # Branches that can't be followed: whatever is asked about their surroundings is unknown.
        self.unknown_branches = tuple(flow.unknown)
        self.is_reachable = flow.is_reachable
        self.successors = flow.successors
        self.predecessors = flow.predecessors
        self.dominates = flow.dominates
        self.post_dominates = flow.post_dominates
        self.can_follow = flow.can_follow
        self.definitions = self._data.definitions
        self.slice_of = self._data.slice_of
        self.roots = self._addresses.roots
        self.same_address = self._addresses.are_same
        self.value_of_address = self._values.of_address
        self.is_beside = self._addresses.are_beside
        self.shared_stores = self._addresses.shared_stores
        self.guards = self._control.guards
        self.is_one_thread = self._one_thread.holds
        self.thread_number = self._one_thread.number

    @cached_property
    def loops(self) -> tuple[CodeLoop, ...]:
        """All loops, outer ones before inner ones."""
        return loops_of(self._control_flow)

    @cached_property
    def _innermost(self) -> dict[int, CodeLoop]:
        return {at: loop for loop in self.loops for at in loop.body}

    def loop_of(self, at: int) -> CodeLoop | None:
        """The innermost loop that `at` is in."""
        return self._innermost.get(at)

    def path_without(
        self, one: int, other: int, stops: Callable[[Instruction], bool]
    ) -> tuple[int, ...] | None:
        """A shortest path from after `one` (-1: the entry) to `other`, on which nothing satisfies `stops`.

        `other` itself is the path's last instruction and is not asked; None where there is no such path.
        """
        flow = self._control_flow
        came: dict[int, int] = {}
        starts = flow.successors(one) if one >= 0 else (0,)
        work = [(start, one) for start in starts]
        for at, before in work:  # grows while it is gone through
            if at in came:
                continue
            came[at] = before
            if at == other:
                flow.effort.spend(len(came))
                return _way(came, one, other)
            if at < flow.end and not stops(flow.instructions[at]):
                work += [(following, at) for following in flow.successors(at)]
        flow.effort.spend(len(came))
        return None


def _way(came: dict[int, int], one: int, other: int) -> tuple[int, ...]:
    path = [other]
    while came[path[-1]] != one:
        path.append(came[path[-1]])
    return tuple(reversed(path))
