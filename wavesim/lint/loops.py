"""The loops of a kernel, nested ones too, and those with several entries.

Example: a spin `L: ld; setp; @%p bra L` is a CodeLoop of three instructions with the load as its header and
the branch as its one exit.

Source: a loop is a strongly connected component; without its header, what is still one is a loop inside it
(Steensgaard 1993; equal to natural loops where the flow graph is reducible).
"""

from dataclasses import dataclass

from wavesim.lint.blocks import ControlFlow
from wavesim.lint.graph import reverse_postorder, strong_components

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
    found = []
    work = [(order, 0)]
    while work:
        nodes, depth = work.pop()
        for component in strong_components(flow.edges, nodes):
            if len(component) == 1 and component[0] not in flow.edges[component[0]]:
                continue
            header = _header(flow, component, rank)
            found.append(_loop(flow, component, header, depth))
            found += _of_own_latches(flow, component, header, depth + 1)
            if depth + 1 < MOST_NESTED:
                work.append(([block for block in component if block != header], depth + 1))
    return tuple(sorted(found, key=lambda loop: (loop.depth, loop.header)))


def _of_own_latches(flow: ControlFlow, component: list[int], header: int, depth: int) -> list[CodeLoop]:
    """Loops inside that begin where the outer one does: a spin that is the first thing in a loop's turn."""
    inside = set(component)
    latches = [block for block in component if header in flow.edges[block]]
    found = []
    for latch in latches if len(latches) > 1 else ():
        body, work = {header, latch}, [latch]
        while work:
            block = work.pop()
            fresh = {b for b in flow.back[block] if b in inside} - body if block != header else set()
            body |= fresh
            work += fresh
        if len(body) < len(component):
            found.append(_loop(flow, sorted(body), header, depth))
    return found


def _header(flow: ControlFlow, component: list[int], rank: dict[int, int]) -> int:
    """The first block that is entered from outside."""
    inside = set(component)
    entries = [block for block in component if any(b not in inside for b in flow.back[block] if b in rank)]
    return min(entries or component, key=rank.__getitem__)


def _loop(flow: ControlFlow, component: list[int], header: int, depth: int) -> CodeLoop:
    flow.effort.spend(sum(len(flow.range_of(block)) for block in component))
    body = frozenset(at for block in component for at in flow.range_of(block))
    inside = set(component)
    leaving = [block for block in sorted(component) if not inside.issuperset(flow.edges[block])]
    return CodeLoop(body, flow.starts[header], tuple(flow.range_of(block)[-1] for block in leaving), depth)
