"""Every way kernels of several small GPUs can go: what is issued next, to which SM, and which block goes on.

A state is how many blocks of each kernel have been issued, which item is next, and what each resident block
does. Any kernel whose turn has come may issue its next block to any SM with room, in any mixture with others;
any block that has all it needs may go on, or stay. Stuck is a state with work left in which nothing can move.

One thing is taken for granted, which dependent launch gives: a kernel that stands behind a GEMM on another
stream is issued once all of the GEMM's blocks are. Nothing else is known of the simulator's dispatcher.
"""

from collections.abc import Iterator

from wavesim.model.device import Device
from wavesim.sim.peers.program import COMPUTE, PeerKernel, PeerProgram
from wavesim.sim.placement import Footprint, footprint

NO_SM = -1
Block = tuple[int, int, int]  # SM of its device, item, whether its own waits are over
Kernel = tuple[int, int, tuple[Block, ...]]  # blocks issued, next item, resident blocks
State = tuple[Kernel, ...]


class TooLargeError(Exception):
    """More states than the caller wants to look at."""


class PeerSearch:
    """All states of a program on devices of one kind."""

    def __init__(self, program: PeerProgram, device: Device) -> None:
        self.kernels, self.device = list(program.kernels), device
        self.awaited = [one.awaited for one in program.semaphores]
        self.prints = [footprint(device, one.stage.kernel) for one in self.kernels]
        self.turns = [list(self.turns_of(i)) for i in range(len(self.kernels))]
        self.behind = [list(self.behind_of(i)) for i in range(len(self.kernels))]
        self.states = 0

    def turns_of(self, number: int) -> Iterator[int]:
        """Kernels that have to end first: those named, and the one before in the stream."""
        own = self.kernels[number]
        yield from own.after
        same = [i for i in range(number) if self.place(i) == self.place(number)]
        yield from same[-1:]

    def behind_of(self, number: int) -> Iterator[int]:
        """Kernels of the computing stream that stand before one of another: issued to their end first."""
        own = self.kernels[number]
        if own.stream != COMPUTE:
            for i in range(number):
                if self.place(i) == (own.stage.device, COMPUTE):
                    yield i

    def place(self, number: int) -> tuple[int, int]:
        return self.kernels[number].stage.device, self.kernels[number].stream

    def finds_hang(self, most_states: int) -> bool:
        """Whether any state is stuck. Raises `TooLargeError`."""
        start: State = tuple((0, 0, ()) for _ in self.kernels)
        seen, left = {start}, [start]
        while left:
            state = left.pop()
            moves = list(self.moves(state))
            if not moves and any(not self.is_over(i, state) for i in range(len(state))):
                self.states = len(seen)
                return True
            for after in moves:
                if after not in seen:
                    seen.add(after)
                    left.append(after)
            if len(seen) > most_states:
                raise TooLargeError
        self.states = len(seen)
        return False

    def is_over(self, number: int, state: State) -> bool:
        _, following, resident = state[number]
        return following == len(self.kernels[number].items) and not resident

    def moves(self, state: State) -> Iterator[State]:
        """What may happen next: a block that has what it needs goes on, or a kernel issues one."""
        counts = self.counts(state)
        for number, (issued, following, resident) in enumerate(state):
            one = self.kernels[number]
            for block in sorted(set(resident)):
                if self.can_go_on(one, block, counts):
                    yield self.gone_on(state, number, block)
            is_first = issued < one.blocks and following < len(one.items)
            if is_first and self.has_turn(number, state):
                for sm in self.places(number, state):
                    taken = (issued + 1, following + 1, tuple(sorted((*resident, (sm, following, 0)))))
                    yield (*state[:number], taken, *state[number + 1 :])

    def has_turn(self, number: int, state: State) -> bool:
        if not all(self.is_over(i, state) for i in self.turns[number]):
            return False
        return all(
            state[i][0] == self.kernels[i].blocks or state[i][1] == len(self.kernels[i].items)
            for i in self.behind[number]
        )

    def places(self, number: int, state: State) -> list[int]:
        """SMs with room, of alike ones the first."""
        if self.kernels[number].sender == "copy-engine":
            return [NO_SM]
        held: list[list[int]] = [[] for _ in range(self.device.sm_count)]
        for i, (_, _, resident) in enumerate(state):
            if self.kernels[i].stage.device == self.kernels[number].stage.device:
                for sm, _, _ in resident:
                    if sm != NO_SM:
                        held[sm].append(i)
        found: dict[tuple[int, ...], int] = {}
        for sm, there in enumerate(held):
            if self.fits([self.prints[i] for i in (*there, number)]):
                found.setdefault(tuple(sorted(there)), sm)
        return list(found.values())

    def fits(self, there: list[Footprint]) -> bool:
        device = self.device
        return (
            len(there) <= device.max_blocks_per_sm
            and sum(one.warps for one in there) <= device.max_warps_per_sm
            and sum(one.registers for one in there) <= device.registers_per_sm
            and sum(one.shared_bytes for one in there) <= there[0].carveout_bytes
        )

    def counts(self, state: State) -> list[int]:
        """Posts of every semaphore: an item's `arrives` as it is taken, all else once its waits are over."""
        counts = [0] * len(self.awaited)
        for number, (_, following, resident) in enumerate(state):
            waiting = {item for _, item, is_past in resident if not is_past}
            for place, item in enumerate(self.kernels[number].items[:following]):
                posts = list(item.arrives)
                if place not in waiting:
                    posts += [*item.posts, *(post for send in item.sends for post in send.posts)]
                for post in posts:
                    counts[post] += 1
        return counts

    def can_go_on(self, one: PeerKernel, block: Block, counts: list[int]) -> bool:
        _, place, is_past = block
        item = one.items[place]
        return all(
            counts[i] >= self.awaited[i] for i in (item.until if is_past else (*item.waits, *item.adds))
        )

    def gone_on(self, state: State, number: int, block: Block) -> State:
        """Past its waits, then to the next item or away from its SM."""
        issued, following, resident = state[number]
        sm, place, is_past = block
        others = list(resident)
        others.remove(block)
        item = self.kernels[number].items[place]
        if not is_past and item.until:
            others.append((sm, place, 1))
        elif following < len(self.kernels[number].items):
            others.append((sm, following, 0))
            following += 1
        return (*state[:number], (issued, following, tuple(sorted(others))), *state[number + 1 :])
