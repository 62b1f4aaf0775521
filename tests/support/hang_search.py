"""Every way a situation can go: which launch is taken up next, where a block lands, which one ends.

A state is how many blocks of each kind have been issued and what each SM holds; what has ended follows. Any
operation whose turn has come may issue its next block to any SM with room, and any block that has all it
needs may end. Stuck is a state in which no block can end and, wherever blocks are left to issue, one has no
room: it may be the one at the head, which nothing passes.

Nothing here knows the rule that it judges, nor how that finds out whose turn it is. It shares with it the
description and what a block takes from an SM. Blocks of a grid that wait for different rows are of different
kinds; SMs are interchangeable, or pairs of them where there are clusters.
"""

from collections.abc import Iterator
from functools import cache

from wavesim.model.kernel import Grid, Kernel
from wavesim.safety.hang.situation import BlockWait, Situation
from wavesim.sim.placement import Footprint, footprint
from wavesim.sim.streams.stream_order import StreamOperation

Sm = tuple[int, tuple[int, ...]]  # carve-out, kinds of the blocks on it
State = tuple[int, tuple[int, ...], tuple[tuple[Sm, ...], ...]]  # launches made, issued per kind, pools' SMs
IDLE: Sm = (0, ())


class TooLargeError(Exception):
    """More states than the caller wants to look at."""


class HangSearch:
    """All states of one situation. `trust` says what the device may do: "cuda", "room" or "order"."""

    def __init__(self, situation: Situation, trust: str) -> None:
        self.situation, self.trust = situation, trust
        self.ops = situation.operations
        self.number = {one.name: i for i, one in enumerate(self.ops)}
        self.op_of: list[int] = []  # per kind
        self.row_of: list[int] = []
        self.totals: list[int] = []
        self.kinds: list[list[int]] = []  # per operation
        self.rows = max((wait.rows for wait in situation.waits if wait.blocks == "row"), default=1)
        rowwise = {
            name for wait in situation.waits if wait.blocks == "row" for name in (wait.waiter, wait.producer)
        }
        for i, one in enumerate(self.ops):
            size = max(1, one.blocks)
            rows = self.rows if one.name in rowwise else 1
            self.kinds.append([])
            for row in range(rows):
                self.kinds[i].append(len(self.op_of))
                self.op_of.append(i)
                self.row_of.append(row)
                self.totals.append(size // rows)
        self.parts = {part.name: part for part in situation.devices}
        self.prints = [self.footprint_of(one) for one in self.ops]
        self.pool_names = list(dict.fromkeys(self.pool_name(one) for one in self.ops))
        self.pool = [self.pool_names.index(self.pool_name(one)) for one in self.ops]
        self.has_pairs = [
            any(self.ops[i].cluster > 1 for i in range(len(self.ops)) if self.pool[i] == pool)
            for pool in range(len(self.pool_names))
        ]
        self.waits = [[wait for wait in situation.waits if wait.waiter == one.name] for one in self.ops]
        self.fits = cache(self.fits_afresh)
        self.states = 0

    def footprint_of(self, one: StreamOperation) -> Footprint | None:
        kernel = Kernel(one.name, Grid(1), one.block, carveout=one.carveout)
        return footprint(self.parts[one.device].device, kernel) if one.is_kernel else None

    def pool_name(self, one: StreamOperation) -> tuple[str, ...]:
        if one.kind == "copy":
            return ("copies",)
        if one.kind == "host":
            return ("host", one.process)
        return ("sms", one.device, "" if self.parts[one.device].is_mps else one.process)

    def finds_hang(self, most_states: int = 10**9) -> bool:
        """Whether any state is stuck. Raises `TooLargeError`."""
        start = self.start()
        seen, stack = {start}, [start]
        while stack:
            state = stack.pop()
            following = list(self.moves(state))
            if self.is_stuck(state):
                return True
            for one in following:
                if one not in seen:
                    seen.add(one)
                    stack.append(one)
            self.states = len(seen)
            if self.states > most_states:
                raise TooLargeError
        return False

    def finds_end(self, most_states: int = 10**9) -> bool:
        """Whether everything can come to its end. Raises `TooLargeError`."""
        seen, stack = {self.start()}, [self.start()]
        while stack:
            state = stack.pop()
            if all(self.is_over(state, op) for op in range(len(self.ops))):
                return True
            new = {one for one in self.moves(state) if one not in seen}
            seen |= new
            stack += new
            if len(seen) > most_states:
                raise TooLargeError
        return False

    def start(self) -> State:
        pools = []
        for name in self.pool_names:
            count = 1
            if name[0] == "sms":
                part = self.parts[name[1]]
                count = part.device.sm_count - part.held_sms
            pools.append((IDLE,) * count)
        launched = 0 if self.trust == "order" else len(self.ops)
        return launched, (0,) * len(self.op_of), tuple(pools)

    def issued(self, state: State, op: int) -> int:
        return sum(state[1][kind] for kind in self.kinds[op])

    def size(self, op: int) -> int:
        return sum(self.totals[kind] for kind in self.kinds[op])

    def resident(self, state: State, kind: int) -> int:
        return sum(kinds.count(kind) for _, kinds in state[2][self.pool[self.op_of[kind]]])

    def ended(self, state: State, op: int) -> int:
        return self.issued(state, op) - sum(self.resident(state, kind) for kind in self.kinds[op])

    def is_over(self, state: State, op: int) -> bool:
        return self.ended(state, op) == self.size(op)

    def has_turn(self, state: State, op: int) -> bool:
        """As CUDA has it: streams, the legacy default stream, events, dependent launch, the host."""
        one = self.ops[op]
        return op < state[0] and all(
            (
                self.stream_has_come(state, op),
                self.default_stream_has_come(state, op),
                self.host_has_come(state, op),
                all(self.is_over(state, self.number[name]) for name in one.after),
                all(
                    self.issued(state, i) == self.size(i)
                    for i in map(self.number.__getitem__, one.after_start)
                ),
            )
        )

    def stream_has_come(self, state: State, op: int) -> bool:
        one = self.ops[op]
        behind = [
            i
            for i in range(op)
            if (self.ops[i].process, self.ops[i].device, self.ops[i].stream)
            == (one.process, one.device, one.stream)
        ]
        last = self.ops[behind[-1]] if behind else None
        if one.is_dependent and last is not None and last.is_kernel and last.trigger == "start":
            return self.issued(state, behind[-1]) == self.size(behind[-1])
        return all(self.is_over(state, i) for i in behind)

    def default_stream_has_come(self, state: State, op: int) -> bool:
        one = self.ops[op]
        for i in range(op):
            other = self.ops[i]
            is_near = (other.process, other.device) == (one.process, one.device)
            crosses = (one.stream == "legacy" and other.stream != "legacy" and other.is_blocking) or (
                other.stream == "legacy" and one.stream != "legacy" and one.is_blocking
            )
            if is_near and crosses and not self.is_over(state, i):
                return False
        return True

    def host_has_come(self, state: State, op: int) -> bool:
        return all(
            self.is_over(state, self.number[name])
            for other in self.ops[: op + 1]
            if other.process == self.ops[op].process
            for name in other.host_after
        )

    def can_end(self, state: State, kind: int) -> bool:
        return all(self.is_met(state, wait, kind) for wait in self.waits[self.op_of[kind]])

    def is_met(self, state: State, wait: BlockWait, kind: int) -> bool:
        if wait.semaphore:
            semaphore = next(one for one in self.situation.semaphores if one.name == wait.semaphore)
            count = semaphore.initial
            for post in semaphore.posts:
                op = self.number[post.producer]
                reached = self.issued(state, op) if post.until == "start" else self.ended(state, op)
                silent = 0 if post.blocks is None else max(0, self.size(op) - post.blocks)
                count += post.each * max(0, reached - silent)
            return count >= wait.value
        op = self.number[wait.producer]
        if wait.blocks == "row":
            mine = self.kinds[op][self.row_of[kind]]
            reached = state[1][mine] - (self.resident(state, mine) if wait.until == "end" else 0)
            return reached == self.totals[mine]
        reached = self.issued(state, op) if wait.until == "start" else self.ended(state, op)
        return reached >= (self.size(op) if wait.blocks == "all" else wait.blocks)

    def ready(self, state: State) -> set[int]:
        """Kinds of resident blocks that can end now."""
        there = {kind for pool in state[2] for _, kinds in pool for kind in kinds}
        return {kind for kind in there if self.can_end(state, kind)}

    def heads(self, state: State) -> dict[int, list[int]]:
        """Per pool the operations whose turn has come, with blocks left."""
        found: dict[int, list[int]] = {}
        for op in range(len(self.ops)):
            if self.issued(state, op) < self.size(op) and self.has_turn(state, op):
                found.setdefault(self.pool[op], []).append(op)
        if self.trust == "order":
            for ops in found.values():
                ops.sort(key=lambda op: (self.ops[op].priority, op))
        return found

    def first(self, state: State, ops: list[int]) -> list[int]:
        """Of a pool's heads those that the device may take next."""
        if self.trust != "order":
            return ops
        held = next((i for i, op in enumerate(ops) if not self.may_stand_behind(state, op)), len(ops) - 1)
        return ops[: held + 1]

    def may_stand_behind(self, state: State, op: int) -> bool:
        """More streams than hardware queues: one may stand behind an earlier launch of another stream."""
        one = self.ops[op]
        place = (one.process, one.device)
        near = [i for i, other in enumerate(self.ops) if (other.process, other.device) == place]
        if len({self.ops[i].stream for i in near}) <= self.parts[one.device].queues:
            return False
        return any(
            i < op and self.ops[i].stream != one.stream and self.issued(state, i) < self.size(i) for i in near
        )

    def is_stuck(self, state: State) -> bool:
        if state[0] < len(self.ops) or self.ready(state):
            return False
        if all(self.is_over(state, op) for op in range(len(self.ops))):
            return False
        return all(self.is_stuck_pool(state, pool, ops) for pool, ops in self.heads(state).items())

    def is_stuck_pool(self, state: State, pool: int, ops: list[int]) -> bool:
        if all(self.may_stand_behind(state, op) for op in ops):
            return True
        ops = self.first(state, ops)
        if self.pool_names[pool][0] == "copies":
            return False
        if self.trust == "cuda" and any(kinds for _, kinds in state[2][pool]):
            return True
        return any(not self.landings(state, op) for op in ops)

    def moves(self, state: State) -> Iterator[State]:
        launched, issued, pools = state
        if launched < len(self.ops):
            yield launched + 1, issued, pools
        ready = self.ready(state)
        for p, pool in enumerate(pools):
            for i, (carveout, kinds) in enumerate(pool):
                for kind in ready.intersection(kinds):
                    place = kinds.index(kind)
                    left = kinds[:place] + kinds[place + 1 :]
                    sm = (carveout, left) if left else IDLE
                    yield launched, issued, self.with_pool(pools, p, (*pool[:i], sm, *pool[i + 1 :]))
        for p, ops in self.heads(state).items():
            for op in self.first(state, ops):
                for taken, landed in self.landings(state, op):
                    counts = list(issued)
                    for kind in taken:
                        counts[kind] += 1
                    yield launched, tuple(counts), self.with_pool(pools, p, landed)

    def with_pool(
        self, pools: tuple[tuple[Sm, ...], ...], number: int, pool: tuple[Sm, ...]
    ) -> tuple[tuple[Sm, ...], ...]:
        """The pools with one changed, its SMs in order."""
        if self.has_pairs[number]:
            pairs = sorted(tuple(sorted(pool[i : i + 2])) for i in range(0, len(pool) // 2 * 2, 2))
            ordered = (*(sm for pair in pairs for sm in pair), *pool[len(pool) // 2 * 2 :])
        else:
            ordered = tuple(sorted(pool))
        return (*pools[:number], ordered, *pools[number + 1 :])

    def landings(self, state: State, op: int) -> list[tuple[tuple[int, ...], tuple[Sm, ...]]]:
        """(kinds issued, the pool's SMs after that) of each way in which the next blocks can land."""
        one, pool = self.ops[op], state[2][self.pool[op]]
        kinds = [kind for kind in self.kinds[op] if state[1][kind] < self.totals[kind]]
        if one.is_cooperative:
            whole = tuple(kind for kind in self.kinds[op] for _ in range(self.totals[kind]))
            return [(whole, landed) for landed in self.packed(pool, whole)]
        if one.cluster > 1:
            kind = kinds[0]
            found = []
            for i in range(0, len(pool) // 2 * 2, 2):
                if self.fits(pool[i], op) and self.fits(pool[i + 1], op):
                    after = self.landed(self.landed(pool, i, kind), i + 1, kind)
                    found.append(((kind, kind), after))
            return found
        return [
            ((kind,), self.landed(pool, i, kind))
            for i, sm in enumerate(pool)
            if self.has_pairs[self.pool[op]] or not i or sm != pool[i - 1]
            if self.fits(sm, op)
            for kind in kinds
        ]

    def packed(self, pool: tuple[Sm, ...], kinds: tuple[int, ...], first: int = 0) -> list[tuple[Sm, ...]]:
        """The ways in which all of these find room together."""
        if not kinds:
            return [pool]
        found: list[tuple[Sm, ...]] = []
        for i in range(first, len(pool)):
            if self.fits(pool[i], self.op_of[kinds[0]]):
                found += self.packed(self.landed(pool, i, kinds[0]), kinds[1:], i)
        return found

    def landed(self, pool: tuple[Sm, ...], i: int, kind: int) -> tuple[Sm, ...]:
        carveout, kinds = pool[i]
        mine = self.prints[self.op_of[kind]]
        taken = carveout if kinds or mine is None else mine.carveout_bytes
        return (*pool[:i], (taken, tuple(sorted((*kinds, kind)))), *pool[i + 1 :])

    def fits_afresh(self, sm: Sm, op: int) -> bool:
        """Whether an SM has room for a block of an operation."""
        carveout, kinds = sm
        newcomer = self.prints[op]
        if not kinds or self.ops[op].kind == "copy":
            return True
        if newcomer is None:
            return False  # one host function at a time
        device = self.parts[self.ops[op].device].device
        there = [self.prints[self.op_of[kind]] for kind in kinds] + [newcomer]
        return (
            len(there) <= device.max_blocks_per_sm
            and sum(block.warps for block in there) <= device.max_warps_per_sm
            and sum(block.registers for block in there) <= device.registers_per_sm
            and sum(block.shared_bytes for block in there) <= carveout
            and newcomer.least_carveout_bytes <= carveout
        )
