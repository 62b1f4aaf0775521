"""Graphs of basic blocks as lists of successors: order, dominators, strongly connected components.

Example: in [[1, 2], [3], [3], []] node 0 dominates 3 and neither 1 nor 2 does; no two nodes are in a circle.

Source: Georgiadis, Linear-time algorithms for dominators (2005), algorithm Semi-NCA; Tarjan, Depth-first
search and linear graph algorithms (1972).
"""

from collections.abc import Collection, Sequence

Edges = Sequence[Sequence[int]]


def reversed_edges(edges: Edges) -> list[list[int]]:
    """For each node the nodes that lead to it."""
    back: list[list[int]] = [[] for _ in edges]
    for node, nexts in enumerate(edges):
        for following in nexts:
            back[following].append(node)
    return back


def reverse_postorder(edges: Edges, root: int) -> list[int]:
    """The nodes that `root` reaches, each before those that only it leads to."""
    order: list[int] = []
    seen = {root}
    stack = [(root, iter(edges[root]))]
    while stack:
        node, nexts = stack[-1]
        for following in nexts:
            if following not in seen:
                seen.add(following)
                stack.append((following, iter(edges[following])))
                break
        else:
            stack.pop()
            order.append(node)
    return order[::-1]


def immediate_dominators(edges: Edges, root: int) -> list[int]:
    """Of each node the last other on every path to it from `root`; `root` has itself, unreached ones -1."""
    order, parent = _preorder(edges, root)
    rank = {node: at for at, node in enumerate(order)}
    back = [[rank[before] for before in befores if before in rank] for befores in reversed_edges(edges)]
    above = [rank[parent[node]] for node in order]
    semi = _semidominators([back[node] for node in order], above)
    # In preorder the ancestors of a node are done before it.
    nearest = above
    for node in range(1, len(order)):
        while nearest[node] > semi[node]:
            nearest[node] = nearest[nearest[node]]
    dominator = [-1] * len(edges)
    for at, node in enumerate(order):
        dominator[node] = order[nearest[at]]
    return dominator


def _preorder(edges: Edges, root: int) -> tuple[list[int], dict[int, int]]:
    order: list[int] = []
    parent = {root: root}
    seen: set[int] = set()
    stack = [(root, root)]
    while stack:
        node, before = stack.pop()
        if node not in seen:
            seen.add(node)
            parent[node] = before
            order.append(node)
            stack += [(following, node) for following in reversed(edges[node]) if following not in seen]
    return order, parent


def _semidominators(back: Edges, above: Sequence[int]) -> list[int]:
    """By preorder numbers, which `back` and `above` (the parents in the depth-first tree) are in too."""
    count = len(back)
    semi, best, ancestor = list(range(count)), list(range(count)), list(above)
    for node in range(count - 1, 0, -1):
        for before in back[node]:
            semi[node] = min(semi[node], semi[_compressed(before, node, semi, best, ancestor)])
    return semi


def _compressed(node: int, last: int, semi: list[int], best: list[int], ancestor: list[int]) -> int:
    """The node of smallest semidominator on the path from `node` up to `last`, which is not done yet."""
    if node <= last:
        return node
    path = [node]
    while ancestor[path[-1]] > last:
        path.append(ancestor[path[-1]])
    for below in reversed(path[:-1]):
        up = ancestor[below]
        if semi[best[up]] < semi[best[below]]:
            best[below] = best[up]
        ancestor[below] = ancestor[up]
    return best[node]


class DominatorTree:
    """Who dominates whom, each question answered in constant time by when a walk enters and leaves a node."""

    def __init__(self, edges: Edges, root: int) -> None:
        self.parent = immediate_dominators(edges, root)
        children: list[list[int]] = [[] for _ in edges]
        for node, parent in enumerate(self.parent):
            if parent >= 0 and node != root:
                children[parent].append(node)
        self._enter, self._leave = [-1] * len(edges), [-1] * len(edges)
        clock = 0
        stack = [(root, False)]
        while stack:
            node, is_left = stack.pop()
            clock += 1
            if is_left:
                self._leave[node] = clock
            else:
                self._enter[node] = clock
                stack.append((node, True))
                stack += ((child, False) for child in children[node])

    def dominates(self, first: int, second: int) -> bool:
        """Whether every path from the root to `other` passes `one`; false where the root does not reach."""
        if self._enter[first] < 0 or self._enter[second] < 0:
            return False
        return self._enter[first] <= self._enter[second] and self._leave[second] <= self._leave[first]


def strong_components(edges: Edges, nodes: Collection[int]) -> list[list[int]]:
    """The strongly connected components of the graph of `nodes` alone, each after those that it leads to."""
    inside = set(nodes)
    index: dict[int, int] = {}
    low: dict[int, int] = {}
    on_stack: set[int] = set()
    path: list[int] = []
    components: list[list[int]] = []
    for start in nodes:
        if start in index:
            continue
        work = [(start, iter(edges[start]))]
        index[start] = low[start] = len(index)
        path.append(start)
        on_stack.add(start)
        while work:
            node, nexts = work[-1]
            for following in nexts:
                if following not in inside:
                    continue
                if following not in index:
                    index[following] = low[following] = len(index)
                    path.append(following)
                    on_stack.add(following)
                    work.append((following, iter(edges[following])))
                    break
                if following in on_stack:
                    low[node] = min(low[node], index[following])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    at = _last(path, node)
                    components.append(path[at:])
                    on_stack.difference_update(path[at:])
                    del path[at:]
    return components


def _last(path: Sequence[int], node: int) -> int:
    at = len(path) - 1
    while path[at] != node:
        at -= 1
    return at
