"""Which branches decide whether an instruction runs, and which instructions run in turns of a loop.

Example: after `@%p1 bra END` the instructions up to END run if %p1 is false: they are control dependent on
the branch, and what follows END is not.

Source: Ferrante, Ottenstein and Warren, The program dependence graph (1987).
"""

from dataclasses import dataclass
from functools import cached_property

from wavesim.lint.blocks import ControlFlow, is_conditional
from wavesim.lint.graph import reverse_postorder, strong_components


class Control:
    """Control dependence, and the conditions that hold on every path to an instruction."""

    def __init__(self, flow: ControlFlow) -> None:
        self._flow = flow

    @cached_property
    def _direct(self) -> list[set[int]]:
        flow = self._flow
        guards: list[set[int]] = [set() for _ in flow.edges]
        parent = flow.post_tree.parent
        for block, nexts in enumerate(flow.edges):
            if len(nexts) < 2:
                continue
            for following in nexts:
                runner = following
                while runner not in (parent[block], flow.exit) and block not in guards[runner]:
                    guards[runner].add(block)
                    flow.effort.spend(1)
                    runner = parent[runner]
        return guards

    def guards(self, at: int) -> tuple[int, ...]:
        """The conditional branches that decide whether `at` runs, indirectly too; itself if predicated."""
        flow = self._flow
        work = [flow.block_of[at]]
        guards: set[int] = set()
        while work:
            fresh = self._direct[work.pop()] - guards
            guards |= fresh
            work += fresh
            flow.effort.spend(len(fresh) + 1)
        branches = [flow.range_of(block)[-1] for block in guards]
        own = [at] if flow.instructions[at].guard else []
        return tuple(sorted({*branches, *own}))

    def conditions(self, at: int) -> list[tuple[int, bool]]:
        """Predicated instructions and whether their guard holds, on every path from the entry to `at`."""
        flow = self._flow
        block = flow.block_of[at]
        guards = [(at, True)] if flow.instructions[at].guard else []
        if not flow.is_reachable(at):
            return guards
        while True:
            parent = flow.tree.parent[block]
            if parent == block:
                return guards
            branch = flow.range_of(parent)[-1]
            if is_conditional(flow.instructions[branch]) and flow.instructions[branch].guard:
                guards += self._holds(branch, parent, block)
            flow.effort.spend(1)
            block = parent

    def _holds(self, branch: int, parent: int, block: int) -> list[tuple[int, bool]]:
        """What the branch that ends `parent` decides for `block`, which it dominates immediately."""
        flow = self._flow
        others = [before for before in flow.back[block] if before != parent]
        # Another way into the block than over this edge would have to come from the block itself.
        if (
            any(not flow.tree.dominates(block, before) for before in others)
            or flow.edges[parent].count(block) != 1
        ):
            return []
        return [(branch, block != flow.block_of[branch + 1])]


MOST_NESTED = 24  # loops deeper than these are one; compilers' kernels have six


@dataclass(frozen=True)
class CodeLoop:
    """`body` holds indices of instructions, `header` the first one, `exits` those after which it may be left.

    `depth` is 0 outside of all other loops.
    """

    body: frozenset[int]
    header: int
    exits: tuple[int, ...]
    depth: int = 0


def loops_of(flow: ControlFlow) -> tuple[CodeLoop, ...]:
    """All loops that the entry reaches, outer ones before inner ones."""
    order = reverse_postorder(flow.edges, 0)
    rank = {block: at for at, block in enumerate(order)}
    loops = []
    work = [(order, 0)]
    while work:
        nodes, depth = work.pop()
        for component in strong_components(flow.edges, nodes):
            if len(component) == 1 and component[0] not in flow.edges[component[0]]:
                continue
            header = _header(flow, component, rank)
            loops.append(_loop(flow, component, header, depth))
            loops += _of_own_latches(flow, component, header, depth + 1)
            if depth + 1 < MOST_NESTED:
                work.append(([block for block in component if block != header], depth + 1))
    return tuple(sorted(loops, key=lambda loop: (loop.depth, loop.header)))


def _of_own_latches(flow: ControlFlow, component: list[int], header: int, depth: int) -> list[CodeLoop]:
    """Loops inside that begin where the outer one does: a spin that is the first thing in a loop's turn."""
    inside = set(component)
    latches = [block for block in component if header in flow.edges[block]]
    exits = []
    for latch in latches if len(latches) > 1 else ():
        body, work = {header, latch}, [latch]
        while work:
            block = work.pop()
            fresh = {b for b in flow.back[block] if b in inside} - body if block != header else set()
            body |= fresh
            work += fresh
        if len(body) < len(component):
            exits.append(_loop(flow, sorted(body), header, depth))
    return exits


def _header(flow: ControlFlow, component: list[int], rank: dict[int, int]) -> int:
    inside = set(component)
    entries = [block for block in component if any(b not in inside for b in flow.back[block] if b in rank)]
    return min(entries or component, key=rank.__getitem__)


def _loop(flow: ControlFlow, component: list[int], header: int, depth: int) -> CodeLoop:
    flow.effort.spend(sum(len(flow.range_of(block)) for block in component))
    body = frozenset(at for block in component for at in flow.range_of(block))
    inside = set(component)
    leaving = [block for block in sorted(component) if not inside.issuperset(flow.edges[block])]
    return CodeLoop(body, flow.starts[header], tuple(flow.range_of(block)[-1] for block in leaving), depth)
