"""A kernel's control flow: basic blocks, what follows what, what every path passes.

Example: a spin loop `L: ld; setp; @%p bra L; st` has two basic blocks; the load dominates the store, and the
load can follow itself.
"""

from functools import lru_cache

from wavesim.lint.graph import DominatorTree, reversed_edges, strong_components
from wavesim.lint.instruction import Instruction, KernelCode, Op
from wavesim.lint.paths import Effort

_ENDS = frozenset((Op.RETURN, Op.EXIT, Op.TRAP))


class ControlFlow:
    """Which instruction follows which. A predicated exit, return or trap may also go on.

    `unknown` are the branches whose targets are not known: an indirect branch without a table, a label that
    is nowhere. Nothing follows them here, so that whoever asks must say "unknown".
    """

    def __init__(self, kernel: KernelCode, effort: Effort) -> None:
        self.effort = effort
        self.instructions = kernel.instructions
        self.end = len(kernel.instructions)
        self.unknown: list[int] = []
        self._returns = self._places_after_local_calls(kernel)
        self._following = [self._next(at, kernel) for at in range(self.end)]
        self._cut_into_blocks()

    def _places_after_local_calls(self, kernel: KernelCode) -> tuple[int, ...]:
        """In machine code a function that is not inlined stands in the kernel that calls it."""
        return tuple(
            at + 1
            for at, instruction in enumerate(kernel.instructions)
            if instruction.op is Op.CALL and instruction.target in kernel.labels
        )

    def _next(self, at: int, kernel: KernelCode) -> tuple[int, ...]:
        instruction = kernel.instructions[at]
        on = (at + 1,) if instruction.guard or instruction.op not in _ENDS else ()
        if instruction.op is Op.RETURN and self._returns:
            return tuple(dict.fromkeys((*on, *self._returns)))
        if instruction.op in _ENDS:
            return (*on, self.end) if on else (self.end,)
        if instruction.op is Op.CALL and instruction.target in kernel.labels:
            # Under a predicate it is a jump that machine code leaves a loop by, and may not be taken.
            return (*(on if instruction.guard else ()), kernel.labels[instruction.target])
        if instruction.op is Op.CALL:
            return on
        if instruction.op is not Op.BRANCH:
            return on
        targets = [kernel.labels.get(label, -1) for label in instruction.target.split(",")]
        if min(targets) < 0:
            self.unknown.append(at)
        jumps = tuple(target for target in targets if target >= 0)
        return tuple(dict.fromkeys((*on, *jumps) if instruction.guard else jumps))

    def _cut_into_blocks(self) -> None:
        leaders = {0, self.end}
        for at, following in enumerate(self._following):
            if following != (at + 1,):
                leaders.update(following)
                leaders.add(at + 1)
        self.starts = sorted(leaders)  # the last one is the exit, an empty block
        self.block_of = [0] * (self.end + 1)
        for block, (start, stop) in enumerate(
            zip(self.starts, [*self.starts[1:], self.end + 1], strict=True)
        ):
            self.block_of[start:stop] = [block] * (stop - start)
        self.exit = len(self.starts) - 1
        self.edges = [
            [self.block_of[following] for following in self._following[self.starts[block + 1] - 1]]
            for block in range(self.exit)
        ] + [[]]
        self.back = reversed_edges(self.edges)
        self.tree = DominatorTree(self.edges, 0)
        self.post_tree = DominatorTree(self._edges_from_exit(), self.exit)
        # From one block to all at a time: of a few hundred is asked, and all pairs would not fit into memory.
        self._reached = lru_cache(maxsize=1024)(self._reached_from)

    def _edges_from_exit(self) -> list[list[int]]:
        """Edges turned round; a circle that nothing leaves, such as `while (true)`, gets one to the exit."""
        forward = [list(nexts) for nexts in self.edges]
        # A component comes after those that it leads to: the first ones that can't go on are the dead ends.
        can_exit: set[int] = set()
        for component in strong_components(self.edges, range(len(self.edges))):
            is_open = self.exit in component or any(
                n in can_exit for node in component for n in self.edges[node]
            )
            if not is_open:
                forward[component[-1]].append(self.exit)
            can_exit.update(component)
        return reversed_edges(forward)

    def _reached_from(self, block: int) -> bytes:
        reached = bytearray(len(self.edges))
        work = list(self.edges[block])
        while work:
            node = work.pop()
            if not reached[node]:
                reached[node] = 1
                work += self.edges[node]
        self.effort.spend(sum(reached))
        return bytes(reached)

    def range_of(self, block: int) -> range:
        """The indices of a block's instructions."""
        stop = self.starts[block + 1] if block < self.exit else self.end
        return range(self.starts[block], stop)

    def successors(self, at: int) -> tuple[int, ...]:
        """The instructions that may come next; `len(instructions)` is the end of the kernel."""
        return self._following[at]

    def predecessors(self, at: int) -> tuple[int, ...]:
        """The instructions after which `at` may come next."""
        block = self.block_of[at]
        if at != self.starts[block]:
            return (at - 1,)
        return tuple(self.range_of(before)[-1] for before in dict.fromkeys(self.back[block]))

    def is_reachable(self, at: int) -> bool:
        """Whether a path leads from the entry to it."""
        return self.tree.dominates(0, self.block_of[at])

    def dominates(self, first: int, second: int) -> bool:
        """Whether `one` is on every path from the entry to `other`."""
        a, b = self.block_of[first], self.block_of[second]
        return first <= second and self.is_reachable(first) if a == b else self.tree.dominates(a, b)

    def post_dominates(self, first: int, second: int) -> bool:
        """Whether `one` is on every path from `other` to an end of the kernel."""
        a, b = self.block_of[first], self.block_of[second]
        return first >= second if a == b else self.post_tree.dominates(a, b)

    def can_follow(self, first: int, second: int) -> bool:
        """Whether a path from after `one` reaches `other`."""
        a, b = self.block_of[first], self.block_of[second]
        return (a == b and first < second) or bool(self._reached(a)[b])


def is_conditional(instruction: Instruction) -> bool:
    """Whether it goes one of two ways: a branch, exit or trap under a predicate, or the branch of a table."""
    if instruction.op is Op.BRANCH:
        return bool(instruction.guard) or "," in instruction.target
    return bool(instruction.guard) and instruction.op in _ENDS
