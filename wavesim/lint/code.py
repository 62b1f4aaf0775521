"""A kernel as the rules see it: its flow, what is known of its parameters, and which threads run what.

Example: of `if (threadIdx.x == 0) atomicAdd(flag, 1)` the atomic's `threads` hold one ThreadTest of kind
"thread", as it runs in one thread of the block.
"""

import functools
import re
from collections.abc import Iterable, Iterator
from typing import Literal

from wavesim.lint.block_size import counts_by_warp
from wavesim.lint.finding import Known
from wavesim.lint.flow import Fact, Flow, Predicates, ThreadTest
from wavesim.lint.instruction import (
    ACCESSES,
    COPIES,
    STRONG,
    Instruction,
    KernelCode,
    Listing,
    Op,
    is_shuffle,
)
from wavesim.lint.paths import walk

_THREAD = re.compile(r"%tid\b|%tid\.|SR_TID|%laneid|SR_LANEID|\belect\b|\bELECT\b|%warpid")
_PREDICATE = re.compile(r"U?P\d")
_BYTES = re.compile(r"param 0\+(\d+)")
_SHARED = re.compile(r"\bmapa|MAPA\b|SR_SWIN(HI|LO)|PRMT\S* .*0x654\b")
_ROW = re.compile(r"%tid\.[yz]|SR_TID\.[YZ]")
_LANE = re.compile(r"%laneid|SR_LANEID|\belect\b|ELECT\b|\b31\b|0x1f\b")
_WARP = re.compile(r"shr\S* .*\b5\b|SHF\.R\S* .*0x5\b|USHF\.R\S* .*0x5\b|%warpid")


class Code:
    """One kernel with its flow. Instructions are named by their index."""

    def __init__(self, kernel: KernelCode, listing: Listing, known: Known) -> None:
        self.kernel, self.known = kernel, known
        self.language, self.where = listing.language, listing.where
        self.instructions = kernel.instructions
        self.flow = Flow(kernel)
        self._predicates = Predicates(self.flow)
        self._memory: dict[tuple[str, int], frozenset[int]] = {}

    @classmethod
    def forget_all(cls) -> None:
        """Empties the caches of the methods, which would keep every kernel that was ever checked."""
        for method in vars(cls).values():
            if hasattr(method, "cache_clear"):
                method.cache_clear()

    def __getitem__(self, index: int) -> Instruction:
        return self.instructions[index]

    def having(self, *ops: Op) -> Iterator[int]:
        """The reachable instructions that are one of `ops`, in the order of the listing."""
        for op in ops:
            yield from self._by_op.get(op, ())

    @functools.cached_property
    def _by_op(self) -> dict[Op, list[int]]:
        by_op: dict[Op, list[int]] = {}
        for index, instruction in enumerate(self.instructions):
            if self.flow.is_reachable(index):
                by_op.setdefault(instruction.op, []).append(index)
        return by_op

    @functools.cached_property
    def _back_edges(self) -> frozenset[tuple[int, int]]:
        return frozenset(
            (i, loop.header)
            for loop in self.flow.loops
            for i in self.flow.predecessors(loop.header)
            if i in loop.body
        )

    @functools.cache  # noqa: B019 -- a Code lives as long as one check
    def forward(self, index: int) -> tuple[int, ...]:
        """What may run next, without going back to a loop's beginning."""
        return tuple(
            j
            for j in self.flow.successors(index)
            if (index, j) not in self._back_edges and j < len(self.instructions)
        )

    @functools.cache  # noqa: B019
    def onward(self, index: int) -> tuple[int, ...]:
        """What may run next, a loop's next turn too."""
        return tuple(j for j in self.flow.successors(index) if j < len(self.instructions))

    @functools.cache  # noqa: B019
    def backward(self, index: int) -> tuple[int, ...]:
        """What may have run before, without going back into a loop's earlier turn."""
        return tuple(j for j in self.flow.predecessors(index) if (j, index) not in self._back_edges)

    @functools.cache  # noqa: B019
    def premises(self, index: int) -> frozenset[Fact]:
        """What holds of predicates where `index` runs, but for tests of thread indices."""
        facts: set[Fact] = set()
        for guard in self.guards(index):
            ways = [i for i in self.forward(guard) if i == index or index in self.reach(i)]
            if guard == index or len(ways) == 1:
                facts |= self._facts(guard, guard == index or ways[0] != guard + 1)
        return frozenset(facts)

    @functools.cache  # noqa: B019
    def _facts(self, branch: int, is_taken: bool) -> frozenset[Fact]:
        guard = self[branch].guard
        if not is_taken and self._further_predicates(branch):
            return frozenset()
        return frozenset(
            fact
            for fact, register, at in (self._predicates.facts(guard, branch, is_taken) if guard else ())
            if not self.reads_thread(self.sources(register, at))
        )

    @functools.cache  # noqa: B019
    def reach(self, index: int) -> frozenset[int]:
        """The instruction and what may come after it, without going back to a loop's beginning."""
        return frozenset(i for i, _ in walk(self.forward, [(index, True)], lambda _, state: state))

    def outcome(self, branch: int, index: int) -> bool | None:
        """The value of a branch's predicate on the ways to `index`; None where both lead there."""
        ways = [i for i in self.forward(branch) if i == index or index in self.reach(i)]
        if len(ways) != 1 or self[branch].op is not Op.BRANCH:
            return None
        return (ways[0] != branch + 1) != self[branch].guard.startswith("!")

    def backward_to(self, index: int, end: int) -> tuple[int, ...]:
        """What may have run before `index` on a way to `end`: no branch goes against what holds at `end`."""
        return tuple(i for i in self.backward(index) if self._is_possible(i, index, self.premises(end)))

    def _is_possible(self, branch: int, following: int, premises: frozenset[Fact]) -> bool:
        if not premises or self[branch].op is not Op.BRANCH:
            return True
        facts = self._facts(branch, following != branch + 1)
        return not any((key, not value) in premises for key, value in facts)

    def role(self, index: int) -> frozenset[int]:
        """What a block that runs `index` may run, in any turn; tests of thread indices do not count."""
        premises = self.premises(index)
        reached = walk(
            lambda i: [j for j in self.onward(i) if self._is_possible(i, j, premises)],
            [(0, True)],
            lambda _, state: state,
        )
        return frozenset(i for i, _ in reached)

    def is_global(self, index: int) -> bool:
        """Whether it accesses memory that other blocks see, or memory of which that is not known."""
        return self[index].space in ("global", "generic") and not self._is_of_block(index)

    @functools.cache  # noqa: B019
    def _is_of_block(self, index: int) -> bool:
        if self[index].space != "generic":
            return False
        if any(_SHARED.search(self[i].text) for used in self[index].uses for i in self.sources(used, index)):
            return True
        roots = self.roots(index)
        return bool(roots) and not any(root.startswith("param ") for root in roots)

    @functools.cache  # noqa: B019
    def roots(self, index: int) -> frozenset[str]:
        """The parameters and symbols that the address of the access comes from."""
        return self.flow.roots(index)

    def is_(self, kind: Literal["produced", "constant", "remote", "flags"], index: int) -> bool:
        """Whether what it accesses is what the user calls that."""
        names: frozenset[str] = getattr(self.known, kind)
        roots = self.roots(index) if kind != "remote" else self.roots(index) | self._pointed_from(index)
        return bool(names) and any(
            self.known.covers(names, self.kernel.name, self._numbered(root)) for root in roots
        )

    @functools.cache  # noqa: B019
    def _pointed_from(self, index: int) -> frozenset[str]:
        """Where the pointer lies that an address was loaded from: a table of other GPUs' memory, say."""
        address = self[index].address
        loads = self.sources(address.base, index) if address is not None and address.base else ()
        return frozenset(
            r for i in loads if self[i].op is Op.LOAD and self[i].bytes >= 8 for r in self.roots(i)
        )

    def _numbered(self, root: str) -> str:
        """A root by the parameter's number. Disassembly without sizes has bytes: 8 each are assumed."""
        match = _BYTES.fullmatch(root)
        if self.kernel.parameters or self.language == "ptx" or not match:
            return root
        return f"param {int(match[1]) // 8}"

    @functools.cached_property
    def says_produced(self) -> bool:
        """Whether the user says what of this kernel's parameters is produced."""
        names = {name.partition(":")[0] for name in self.known.produced if ":" in name}
        return bool(self.known.produced) and (
            self.kernel.name in names or any(":" not in name for name in self.known.produced)
        )

    @functools.cached_property
    def is_one_warp(self) -> bool:
        """Whether a block is one warp: by its bounds, or by how the kernel counts its threads."""
        if self.kernel.threads or self._has_rows:
            return 0 < self.kernel.threads <= 32
        return counts_by_warp(self.instructions, self.sources)

    @property
    def is_launched(self) -> bool:
        """Whether the user says that it may start before the kernel before it has ended."""
        return not self.known.launched.isdisjoint({"*", self.kernel.name})

    def sources(self, register: str, at: int) -> frozenset[int]:
        """The instructions whose results make up a register by arithmetic; loads end a chain."""
        key = (register, at)
        if key in self._memory:
            return self._memory[key]
        places: set[int] = set()
        asked = {key}
        open_ends = [key]
        while open_ends:
            for index in self.flow.definitions(*open_ends.pop()):
                if index < 0 or index in places:
                    continue
                places.add(index)
                if self[index].op in ACCESSES:
                    continue
                for used in self[index].uses:
                    if (used, index) not in asked:
                        asked.add((used, index))
                        open_ends.append((used, index))
        self._memory[key] = frozenset(places)
        return self._memory[key]

    @functools.cache  # noqa: B019
    def test_of(self, branch: int) -> frozenset[int]:
        """The instructions that a conditional branch's or a predicated instruction's predicate comes from."""
        instruction = self[branch]
        predicates = (
            [instruction.guard.lstrip("!"), *self._further_predicates(branch)] if instruction.guard else []
        )
        return frozenset[int]().union(*(self.sources(predicate, branch) for predicate in predicates))

    def _further_predicates(self, branch: int) -> list[str]:
        instruction = self[branch]
        if instruction.op is not Op.BRANCH or self.language != "sass":
            return []
        return [
            used
            for used in instruction.uses
            if _PREDICATE.fullmatch(used) and used != instruction.guard.lstrip("!")
        ]

    @functools.cache  # noqa: B019
    def values_behind(self, branch: int) -> frozenset[int]:
        """The same, with what a thread has left in shared memory for the others to test."""
        tested = self.test_of(branch)
        left = (i for load in tested if self[load].space == "shared" for i in self.left_in_shared(load))
        return tested.union(*(self.sources(used, i) for i in left for used in self.stored(i)))

    @functools.cache  # noqa: B019
    def left_in_shared(self, load: int) -> tuple[int, ...]:
        """The stores to the very word of shared memory that a load reads, unless overwritten before."""
        stores = self.flow.shared_stores(load)
        own = {id(self[i]) for i in stores}
        return tuple(
            i
            for i in stores
            if self.flow.path_without(i, load, lambda instruction: id(instruction) in own) is not None
        )

    def is_used(self, index: int) -> bool:
        """Whether an instruction reads what it returns."""
        return not self._used.isdisjoint(self[index].defines)

    @functools.cached_property
    def _used(self) -> frozenset[str]:
        return frozenset(register for instruction in self.instructions for register in instruction.uses)

    def deciders(self, index: int) -> tuple[int, ...]:
        """The branches and predicated instructions that the value of an access decides."""
        return self._users.get(index, ())

    def stored(self, index: int) -> list[str]:
        """The registers of what an access stores, adds or compares with: those behind its address."""
        behind = self[index].text.rpartition("]")[2]
        return [word for word in re.findall(r"[%\w.]+", behind) if word in self[index].uses]

    def constant(self, index: int) -> int | None:
        """The number that an access stores or adds, where it is one."""
        registers = self.stored(index)
        if self[index].value is not None or len(registers) != 1:
            return self[index].value
        return self.moved(registers[0], index)

    def moved(self, register: str, at: int) -> int | None:
        """The number that was moved to a register, where it is one."""
        values = {
            self[i].value if self[i].op is Op.MOVE and not self[i].uses else None
            for i in self.flow.definitions(register, at)
        }
        return values.pop() if len(values) == 1 else None

    @functools.cached_property
    def indices(self) -> frozenset[int]:
        """The accesses whose values say where flags lie and what is copied, through loads too.

        Of a vector that the compiler loads in parts, those that decide where the kernel goes, too.
        """
        indices: set[int] = set()
        open_ends = [
            i
            for i, instruction in enumerate(self.instructions)
            if instruction.order in STRONG or instruction.op in COPIES
        ]
        asked = set(open_ends)
        while open_ends:
            at = open_ends.pop()
            instruction = self[at]
            registers = (
                [instruction.address.base] if instruction.op in ACCESSES and instruction.address else []
            )
            if instruction.op in COPIES:
                registers = list(instruction.uses)
            for register in registers:
                for source in self.sources(register, at):
                    if self[source].op in ACCESSES and source not in asked:
                        asked.add(source)
                        open_ends.append(source)
                    indices.add(source)
        indices = {i for i in indices if self[i].op in ACCESSES}
        deciding = [i for i in self.having(Op.LOAD) if self.deciders(i)]
        return frozenset(indices | {i for i in deciding if any(self.flow.is_beside(i, at) for at in indices)})

    @functools.cached_property
    def kept(self) -> frozenset[int]:
        """The accesses whose values stores to memory are made of."""
        stores = self.having(Op.STORE)
        sources = (self.sources(used, i) for i in stores for used in self.stored(i))
        return frozenset(source for made_of in sources for source in made_of if self[source].op in ACCESSES)

    @functools.cached_property
    def _users(self) -> dict[int, tuple[int, ...]]:
        decided: dict[int, tuple[int, ...]] = {}
        for at, instruction in enumerate(self.instructions):
            if instruction.guard:
                for source in self.values_behind(at):
                    if self[source].op in ACCESSES:
                        decided[source] = (*decided.get(source, ()), at)
        return decided

    @functools.cache  # noqa: B019
    def guards(self, index: int) -> frozenset[int]:
        """All the branches and predicates that decide whether it runs, those of its guards too."""
        guards: set[int] = set()
        open_ends = [index]
        while open_ends:
            for guard in self.flow.guards(open_ends.pop()):
                if guard not in guards:
                    guards.add(guard)
                    open_ends.append(guard)
        return frozenset(guards)

    def thread_guards(self, indices: Iterable[int]) -> set[int]:
        """The branches that decide by thread indices whether one of these runs."""
        return {guard for i in indices for guard in self.guards(i) if self._thread_test(guard)}

    @functools.cache  # noqa: B019
    def threads(self, index: int) -> frozenset[ThreadTest]:
        """The tests of thread indices that decide who runs it; empty where all threads of a block do."""
        tests = {test for guard in self.guards(index) if (test := self._thread_test(guard))}
        if self.flow.is_one_thread(index) and not self._has_rows:
            tests = {test for test in tests if test.kind in ("warp", "thread")} | {ThreadTest("thread")}
        return frozenset(tests)

    @functools.cached_property
    def _has_rows(self) -> bool:
        """Whether blocks have a second dimension: threads of one x are then many, in different warps."""
        return any(_ROW.search(instruction.text) for instruction in self.instructions)

    @functools.cached_property
    def shuffles(self) -> frozenset[int]:
        """The instructions that hand a register's value to the warp's other lanes."""
        return frozenset(i for i, instruction in enumerate(self.instructions) if is_shuffle(instruction))

    def reads_thread(self, made_by: frozenset[int]) -> bool:
        """Whether any of these instructions reads a thread's index."""
        return any(_THREAD.search(self[i].text) for i in made_by)

    @functools.cache  # noqa: B019
    def _thread_test(self, guard: int) -> ThreadTest | None:
        test = self.test_of(guard)
        is_poll = any(self[i].op is Op.LOAD and self[i].order in STRONG for i in test)
        if is_poll or not self.reads_thread(test):
            return None
        text = "\n".join(self[i].text for i in sorted(test))
        if _LANE.search(text) or (self._has_rows and not _ROW.search(text)):
            return ThreadTest("lane", test)
        return ThreadTest("warp" if _WARP.search(text) else "some", test)
