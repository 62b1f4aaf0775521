"""Which branches decide whether an instruction runs.

Example: after `@%p1 bra END` the instructions up to END run if %p1 is false: they are control dependent on
the branch, and what follows END is not.

Source: Ferrante, Ottenstein and Warren, The program dependence graph (1987).
"""

from functools import cached_property

from wavesim.lint.blocks import ControlFlow, is_conditional


class Control:
    """Control dependence, and the conditions that hold on every path to an instruction."""

    def __init__(self, flow: ControlFlow) -> None:
        self._flow = flow

    @cached_property
    def _direct(self) -> list[set[int]]:
        """For each block the blocks whose last instruction decides whether it runs."""
        flow = self._flow
        found: list[set[int]] = [set() for _ in flow.edges]
        parent = flow.post_tree.parent
        for block, nexts in enumerate(flow.edges):
            if len(nexts) < 2:
                continue
            for following in nexts:
                runner = following
                while runner not in (parent[block], flow.exit) and block not in found[runner]:
                    found[runner].add(block)
                    flow.effort.spend(1)
                    runner = parent[runner]
        return found

    def guards(self, at: int) -> tuple[int, ...]:
        """The conditional branches that decide whether `at` runs, indirectly too; itself if predicated."""
        flow = self._flow
        work = [flow.block_of[at]]
        found: set[int] = set()
        while work:
            fresh = self._direct[work.pop()] - found
            found |= fresh
            work += fresh
            flow.effort.spend(len(fresh) + 1)
        branches = [flow.range_of(block)[-1] for block in found]
        own = [at] if flow.instructions[at].guard else []
        return tuple(sorted({*branches, *own}))

    def conditions(self, at: int) -> list[tuple[int, bool]]:
        """Predicated instructions and whether their guard holds, on every path from the entry to `at`."""
        flow = self._flow
        block = flow.block_of[at]
        found = [(at, True)] if flow.instructions[at].guard else []
        if not flow.is_reachable(at):
            return found
        while True:
            parent = flow.tree.parent[block]
            if parent == block:
                return found
            branch = flow.range_of(parent)[-1]
            if is_conditional(flow.instructions[branch]) and flow.instructions[branch].guard:
                found += self._holds(branch, parent, block)
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
