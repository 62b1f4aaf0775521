"""Pools of slots: the SMs that blocks compete for, what a block takes from one, and who closes them.

Example: 80 waiting blocks of one warp, spread one to an SM, leave 68 of 148 SMs to blocks that need a whole
one each. Host functions compete too: CUDA may run those of a process one after another.

Blocks of two processes share SMs only under MPS; without it each process has the GPU for its turns.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from wavesim.model.device import Device
from wavesim.model.kernel import Grid, Kernel
from wavesim.model.occupancy import allocation, occupancy_of
from wavesim.safety.hang.situation import DevicePart, Situation
from wavesim.safety.residency import Waiting, close_sms
from wavesim.sim.placement import Footprint, footprint
from wavesim.sim.streams.stream_order import StreamOperation

HOST = "host functions"


@dataclass(frozen=True)
class Pool:
    """SMs for which operations compete: of a part of a device, for one process where `process` is named.

    `device` is None for the thread that runs a process's host functions, one at a time.
    """

    part: str
    process: str
    device: Device | None

    @property
    def name(self) -> str:
        """What people call it."""
        return f"{self.part} of process {self.process}" if self.process else self.part


@dataclass(frozen=True)
class SmGroup:
    """So many SMs that hold the same: how many blocks of each operation, by its number, oldest first."""

    sms: int
    held: tuple[tuple[int, int], ...] = ()

    @property
    def blocks(self) -> int:
        """On each of them."""
        return sum(count for _, count in self.held)


class Pools:
    """Who competes where, and for how much room, by the operations' numbers."""

    def __init__(self, situation: Situation) -> None:
        self._operations = situation.operations
        parts = {part.name: part for part in situation.devices}
        self.of = [self._pool(operation, parts[operation.device]) for operation in situation.operations]
        self._footprints = [
            self._footprint(operation, parts[operation.device]) for operation in situation.operations
        ]

    @staticmethod
    def _pool(operation: StreamOperation, part: DevicePart) -> Pool | None:
        if operation.kind == "host":
            return Pool(HOST, operation.process, None)
        if not operation.is_kernel:
            return None
        device = part.device if not part.held_sms else part.device.with_sm_count(part.sm_count)
        return Pool(part.name, "" if part.is_mps else operation.process, device)

    @staticmethod
    def _footprint(operation: StreamOperation, part: DevicePart) -> Footprint | None:
        if not operation.is_kernel:
            return None
        kernel = Kernel(operation.name, Grid(1), operation.block, carveout=operation.carveout)
        return footprint(part.device, kernel)

    def footprint(self, number: int) -> Footprint:
        """What a block of a kernel takes."""
        taken = self._footprints[number]
        assert taken is not None
        return taken

    def unit(self, number: int) -> int:
        """How many of an operation's blocks are issued together."""
        operation = self._operations[number]
        return (
            max(1, operation.blocks)
            if operation.is_cooperative or not operation.is_kernel
            else operation.cluster
        )

    def size(self, number: int) -> int:
        """An operation's blocks; one for what has none."""
        return max(1, self._operations[number].blocks)

    def capacity(self, number: int) -> int:
        """How many blocks of a kernel its pool holds while nothing else is there."""
        pool, operation = self.of[number], self._operations[number]
        if pool is None or pool.device is None:
            return 1
        per_sm = self.footprint(number).blocks_per_sm
        return pool.device.sm_count // operation.cluster * operation.cluster * per_sm

    def limiter(self, number: int) -> str:
        """What limits a kernel's blocks per SM, in words."""
        pool, operation = self.of[number], self._operations[number]
        assert pool is not None
        assert pool.device is not None
        limits = occupancy_of(pool.device, operation.block)
        return f"{limits.blocks_per_sm} per SM, limited by {limits.limiter}"

    def closed_out(
        self, head: int, waiting: Mapping[int, int], passing: Sequence[int]
    ) -> tuple[int, tuple[tuple[str, ...], ...]] | None:
        """Whether so many waiting blocks can leave the next of `head`'s no room, wherever they are put.

        Returns (SMs closed, names of the blocks on each, as far as they were found), None if room is left.
        """
        pool = self.of[head]
        assert pool is not None
        if pool.device is None:
            names = tuple(self._operations[number].name for number, count in waiting.items() if count)
            return (1, (names[:1],)) if names else None
        kinds = self._kinds(waiting)
        if self._operations[head].is_cooperative:
            return self._crowded(head, waiting, pool.device)
        others = self._kinds({number: self.size(number) for number in passing})
        closure = close_sms(pool.device, kinds, self.footprint(head), others)
        places = pool.device.sm_count // self._operations[head].cluster
        return (closure.closed, closure.residents) if closure.closed >= places else None

    def _kinds(self, counts: Mapping[int, int]) -> list[Waiting]:
        return [
            Waiting(self._operations[number].name, self.footprint(number), min(count, self.capacity(number)))
            for number, count in counts.items()
            if count
        ]

    def _crowded(
        self, head: int, waiting: Mapping[int, int], device: Device
    ) -> tuple[int, tuple[tuple[str, ...], ...]] | None:
        """Whether a cooperative launch can be kept from finding room for all its blocks at once.

        No more is lost than the sum of what each waiting block takes, rounded up to blocks of the head. Each
        may take it from a cluster of its own, which then finds no place.
        """
        mine, cluster = self.footprint(head), self._operations[head].cluster
        lost = sum(
            count * min(mine.blocks_per_sm, _displaced(self.footprint(number), mine))
            for number, count in waiting.items()
        )
        places = mine.blocks_per_sm * (device.sm_count // cluster)
        is_full = (places - min(lost, places)) * cluster < self.size(head)
        return (device.sm_count, ()) if is_full else None

    def spread(self, pool: Pool, blocks: Sequence[tuple[int, int]]) -> tuple[list[SmGroup], dict[int, int]]:
        """Blocks issued in this order, each to an SM with the fewest: (SMs, how many of each found room)."""
        assert pool.device is not None
        groups, placed = [SmGroup(pool.device.sm_count)], {number: 0 for number, _ in blocks}
        for number, count in blocks:
            left = count
            while left:
                open_ = [group for group in groups if self.fits(pool.device, group, number)]
                if not open_:
                    break
                group = min(open_, key=lambda candidate: candidate.blocks)
                taken = min(left, group.sms)
                groups.remove(group)
                groups += _split(group, taken, number)
                left -= taken
            placed[number] += count - left
        return groups, placed

    def fits(self, device: Device, group: SmGroup, number: int) -> bool:
        """Whether an SM of the group has room for one more block."""
        return not self.lacking(device, group, number)

    def lacking(self, device: Device, group: SmGroup, number: int) -> str:
        """What an SM of the group lacks for one more block, in words; nothing where it has room."""
        if not group.held:
            return ""
        mine, held = self.footprint(number), [(self.footprint(other), count) for other, count in group.held]
        warps = sum(kind.warps * count for kind, count in held)
        if group.blocks >= device.max_blocks_per_sm:
            return f"all of its {device.max_blocks_per_sm} slots for blocks are taken"
        if warps + mine.warps > device.max_warps_per_sm:
            return f"{warps} of {device.max_warps_per_sm} warps are there, and a block has {mine.warps}"
        if sum(kind.registers * count for kind, count in held) + mine.registers > device.registers_per_sm:
            there = sum(self._registers(device, other) * count for other, count in group.held)
            return (
                f"of {device.registers_per_sm:,} registers, a quarter for each quarter of the SM, {there:,} "
                f"are taken, and a block takes {self._registers(device, number):,}"
            )
        shared = sum(kind.shared_bytes * count for kind, count in held)
        return _lacking_shared_memory(held[0][0].carveout_bytes, shared, mine)

    def _registers(self, device: Device, number: int) -> int:
        """What the driver allocates for a block; its footprint counts what others can no longer have."""
        return allocation(device, self._operations[number].block).registers


def _lacking_shared_memory(carveout: int, taken: int, mine: Footprint) -> str:
    if mine.least_carveout_bytes > carveout:
        return (
            f"its shared-memory carve-out stays {carveout:,} bytes while blocks are there, and a block needs "
            f"one of {mine.least_carveout_bytes:,}"
        )
    if taken + mine.shared_bytes > carveout:
        return (
            f"{carveout - taken:,} bytes are left of its shared-memory carve-out of {carveout:,}, and a "
            f"block takes {mine.shared_bytes:,}"
        )
    return ""


def _split(group: SmGroup, taken: int, number: int) -> Iterator[SmGroup]:
    held = dict(group.held)
    held[number] = held.get(number, 0) + 1
    yield SmGroup(taken, tuple(held.items()))
    if group.sms > taken:
        yield replace(group, sms=group.sms - taken)


def _displaced(block: Footprint, mine: Footprint) -> int:
    """How many blocks of `mine` one block of another kind takes the room of, at most."""
    if block.carveout_bytes < mine.least_carveout_bytes or block.carveout_bytes != mine.carveout_bytes:
        return mine.blocks_per_sm
    shares = [
        -(-block.warps // mine.warps),
        -(-block.registers // mine.registers),
        -(-block.shared_bytes // mine.shared_bytes) if mine.shared_bytes else 0,
        1,
    ]
    return max(shares)
