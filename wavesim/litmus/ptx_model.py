"""The axioms of the PTX memory consistency model, for one candidate execution of a litmus test.

Example: in message passing with a release and an acquire, the read that saw the flag has the producer's store
of the data before it in causality order, so a candidate in which it reads the data's first value is refused.

Source: PTX ISA 9.0, chapter 8 (sections are named below); as relations in Lustig, Sahasrabuddhe and Giroux,
"A Formal Analysis of the NVIDIA PTX Memory Consistency Model", ASPLOS 2019. Proxies: Lustig, Cooksey and
Giroux, "Mixed-Proxy Extensions for the NVIDIA PTX Memory Consistency Model", ISCA 2022. That paper has no
asynchronous proxy and the manual gives `fence.proxy.async` no rule; it is treated here as that paper treats
the others. TMA's accesses are those of the thread block that starts them, in shared memory those of its
cluster. An mbarrier's phase is a count that every arrival adds to, whatever its scope; who waits for it
synchronises with each arrival whose scope and order fit. wgmma's reads come after what the issuing thread did
before. The end of a kernel waits for its asynchronous copies too.
"""

from collections.abc import Iterator, Mapping
from functools import cached_property
from itertools import permutations

from wavesim.litmus.events import (
    MemoryEvent,
    Relation,
    Skeleton,
    closure,
    composed,
    has_loop,
    intersection,
    inverse,
    reflexive,
    relation_of,
    union,
)
from wavesim.litmus.program import LitmusTest

FIRST = -1
"""In place of a write's number: what memory held before the test."""
ReadsFrom = Mapping[int, int]
"""The write that every read reads from."""


class PtxModel:
    """What the model says of one skeleton's candidate executions."""

    def __init__(self, test: LitmusTest, skeleton: Skeleton) -> None:
        self.skeleton, self.size = skeleton, len(skeleton.events)
        self._memory = [test.memory_of(event.variable) for event in skeleton.events]
        self._shared = [event.variable in test.shared for event in skeleton.events]
        self.writes: dict[str, list[int]] = {}  # by place in memory
        for index, event in enumerate(skeleton.events):
            if event.kind == "write":
                self.writes.setdefault(self._memory[index], []).append(index)
        self.same_variable = self._alike([event.variable for event in self.events])
        self.same_memory = self._alike(self._memory)

    @property
    def events(self) -> list[MemoryEvent]:
        """The skeleton's."""
        return self.skeleton.events

    def memory_of(self, event: int) -> str:
        """The place that an access is to."""
        return self._memory[event]

    def _alike(self, names: list[str]) -> Relation:
        return [
            sum(1 << j for j, other in enumerate(names) if name and name == other and i != j)
            for i, name in enumerate(names)
        ]

    def coherence_orders(self, source: ReadsFrom) -> Iterator[Relation]:
        """Every coherence order, closed, with which the candidate keeps all axioms. None: it is forbidden."""
        reads_from = relation_of(((w, r) for r, w in source.items() if w != FIRST), self.size)
        for fences in self._fence_orders():
            cause = self._causality(reads_from, fences)
            if cause is not None and not has_loop(composed(reads_from, cause)):
                yield from _Coherence(self, source, reads_from, cause).orders()

    # ---- 8.9.3, 8.10.2: Fence-SC order ----

    def _fence_orders(self) -> Iterator[Relation]:
        fences = [i for i, event in enumerate(self.events) if event.kind == "fence" and event.order == "sc"]
        seen = set()
        for order in permutations(fences):
            pairs = [(first, second) for at, first in enumerate(order) for second in order[at + 1 :]]
            relation = intersection(relation_of(pairs, self.size), self.skeleton.morally_strong)
            if tuple(relation) not in seen:
                seen.add(tuple(relation))
                yield relation

    # ---- 8.8: release and acquire patterns ----

    @cached_property
    def _releases(self) -> Relation:
        rows = [0] * self.size
        for index, event in enumerate(self.events):
            strong = self._later(index, "write")
            if event.kind == "fence" and event.order in ("release", "acq_rel", "sc"):
                rows[index] = strong
            elif event.kind == "write" and event.order == "release":
                rows[index] = strong & self.same_variable[index] | 1 << index
        return rows

    @cached_property
    def _acquires(self) -> Relation:
        rows = [0] * self.size
        for index, event in enumerate(self.events):
            if event.kind != "read" or not event.is_strong or not event.makes_acquire:
                continue
            later = self.skeleton.program[index]
            rows[index] = later & self._acquiring_fences
            rows[index] |= later & self.same_variable[index] & self._acquiring_reads
            rows[index] |= 1 << index & self._acquiring_reads
        return rows

    def _later(self, index: int, kind: str) -> int:
        return self.skeleton.program[index] & self.skeleton.mask(lambda e: e.kind == kind and e.is_strong)

    @cached_property
    def _acquiring_fences(self) -> int:
        orders = ("acquire", "acq_rel", "sc")
        return self.skeleton.mask(lambda event: event.kind == "fence" and event.order in orders)

    @cached_property
    def _acquiring_reads(self) -> int:
        return self.skeleton.mask(lambda e: e.kind == "read" and e.order == "acquire" and e.makes_acquire)

    # ---- 8.9.2, 8.9.4, 8.9.5: observation, synchronisation, causality ----

    def _observation(self, reads_from: Relation) -> Relation:
        strong = intersection(reads_from, self.skeleton.whole)
        through = relation_of(self.skeleton.atomics, self.size)
        return composed(closure(union(strong, composed(strong, through))), reflexive([0] * self.size))

    def _causality(self, reads_from: Relation, fences: Relation) -> Relation | None:
        """Causality order, or None where it goes against Fence-SC order, or no barrier can be passed."""
        observed = self._observation(reads_from)
        patterns = composed(composed(self._releases, observed), self._acquires)
        synchronises = intersection(patterns, self.skeleton.morally_strong)
        base = closure(union(self._fixed, synchronises, fences))
        if any(base[index] >> index & 1 for index in self._steps_once):
            return None
        base = union(base, composed(reflexive(base), self._issue))
        preserved = self._proxy_preserved(base)
        return union(preserved, composed(observed, preserved))

    @cached_property
    def _fixed(self) -> Relation:
        return union(self.skeleton.program, relation_of(self.skeleton.fixed, self.size))

    @cached_property
    def _steps_once(self) -> list[int]:
        """What can't come before itself: fence.sc (8.10.2), and barriers, which nobody would pass."""
        return [
            index
            for index, event in enumerate(self.events)
            if event.kind == "barrier" or (event.kind == "fence" and event.order == "sc")
        ]

    @cached_property
    def _issue(self) -> Relation:
        """To an asynchronous access from all before it, and no further than to that access (8.9.1.1)."""
        return relation_of(self.skeleton.issue, self.size)

    def _proxy_preserved(self, base: Relation) -> Relation:
        """Base causality between accesses to one address that no missing proxy fence breaks."""
        kept = intersection(intersection(base, self.same_variable), self._unbroken)
        if self._needs_fences:
            leaves, enters = self._fenced(base)
            across = composed(leaves, composed(reflexive(base), enters))
            ends = relation_of(self.skeleton.kernel_ends, self.size)
            by_kernel_end = composed(composed(base, ends), reflexive(base))
            kept = union(kept, intersection(union(across, by_kernel_end), self.same_variable))
            kept = union(kept, intersection(self._across_aliases(base, leaves, enters), self.same_memory))
        return kept

    @cached_property
    def _needs_fences(self) -> bool:
        return any(event.proxy != "generic" for event in self.events)

    @cached_property
    def _unbroken(self) -> Relation:
        """Pairs that need no proxy fence: generic ones, and of another proxy in one block (or cluster)."""
        shared = zip(self.events, self._shared, strict=True)
        levels = [0 if event.proxy == "generic" else 2 if is_shared else 3 for event, is_shared in shared]
        return [
            sum(
                1 << j
                for j, other in enumerate(self.events)
                if event.proxy == other.proxy and event.place[:level] == other.place[:level]
            )
            for event, level in zip(self.events, levels, strict=True)
        ]

    def _fenced(self, base: Relation) -> tuple[Relation, Relation]:
        """From an access to the proxy fences that let it out of its proxy, and from a fence to what it lets
        in.

        A generic access needs none: it is its own.
        """
        generic = self.skeleton.mask(lambda event: event.is_memory and event.proxy == "generic")
        own = [1 << i if generic >> i & 1 else 0 for i in range(self.size)]
        leaves = union(own, intersection(base, inverse(self._fences)))
        enters = union(own, intersection(base, self._fences))
        return leaves, enters

    @cached_property
    def _fences(self) -> Relation:
        """From a proxy fence to what it can order: accesses of its proxy, thread block and state space."""
        rows = [0] * self.size
        for i, fence in enumerate(self.events):
            if fence.kind == "proxy fence":
                rows[i] = sum(
                    1 << j
                    for j, event in enumerate(self.events)
                    if event.is_memory
                    and (event.proxy, event.place) == (fence.proxy, fence.place)
                    and self._shared[j] in fence.spaces
                )
        return rows

    def _across_aliases(self, base: Relation, leaves: Relation, enters: Relation) -> Relation:
        alias = self.skeleton.mask(lambda event: event.kind == "proxy fence" and event.proxy == "alias")
        through = [row & alias for row in base]
        return composed(composed(composed(leaves, through), base), enters)


class _Coherence:
    """The coherence orders of a candidate whose causality is known, and the axioms that need one."""

    def __init__(self, model: PtxModel, source: ReadsFrom, reads_from: Relation, cause: Relation) -> None:
        self._model, self._source, self._reads_from, self._cause = model, source, reads_from, cause
        self._strong = model.skeleton.whole
        self._in_order = intersection(model.skeleton.program, model.same_variable)

    def orders(self) -> Iterator[Relation]:
        """Starts from what causality says (8.10.1) and tries both ways of each pair that must be ordered."""
        model = self._model
        writes = model.skeleton.mask(lambda event: event.kind == "write")
        forced = [
            row & writes & model.same_memory[index] if writes >> index & 1 else 0
            for index, row in enumerate(self._cause)
        ]
        pairs = [
            (first, second)
            for places in model.writes.values()
            for at, first in enumerate(places)
            for second in places[at + 1 :]
            if self._strong[first] >> second & 1
        ]
        yield from self._extend(closure(forced), pairs)

    def _extend(self, order: Relation, pairs: list[tuple[int, int]]) -> Iterator[Relation]:
        """More order only forbids more, so that a partial order that breaks an axiom ends its branch."""
        if has_loop(order) or not self._keeps_axioms(order):
            return
        for at, (a, b) in enumerate(pairs):
            if not (order[a] >> b & 1 or order[b] >> a & 1):
                for first, second in ((a, b), (b, a)):
                    more = list(order)
                    more[first] |= 1 << second
                    yield from self._extend(closure(more), pairs[at + 1 :])
                return
        yield order

    def _keeps_axioms(self, order: Relation) -> bool:
        from_reads = self._from_reads(order)
        if has_loop(composed(from_reads, self._cause)):  # 8.10.6, causality
            return False
        strong_order = intersection(order, self._strong)
        strong_from_reads = intersection(from_reads, self._strong)
        between = composed(strong_from_reads, strong_order)  # 8.10.3, atomicity
        if any(between[read] >> write & 1 for read, write in self._model.skeleton.atomics):
            return False
        communication = union(intersection(self._reads_from, self._strong), strong_order, strong_from_reads)
        return not has_loop(closure(union(communication, self._in_order)))  # 8.10.5

    def _from_reads(self, order: Relation) -> Relation:
        rows = [0] * self._model.size
        for read, write in self._source.items():
            if write == FIRST:
                rows[read] = sum(1 << w for w in self._model.writes.get(self._model.memory_of(read), ()))
            else:
                rows[read] = order[write]
        return rows
