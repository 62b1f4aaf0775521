"""Random situations on small devices, each from its seed: up to four operations on one or two of them.

Devices are small enough for waiting blocks to fill them, and large enough to leave room as often. Operations
are on streams of any kind, with priorities, dependent launches, events, clusters and cooperative launches;
blocks wait for all, some or a row of an earlier or a later kernel's blocks, for their own grid, or for a
semaphore. About every third situation is what people write: each kernel on a stream of its own, waiting for
the one before.
"""

from dataclasses import replace
from random import Random

from safety_cases import BLOCKS

from wavesim.model.device import load
from wavesim.model.kernel import Block
from wavesim.safety.hang.situation import BlockWait, DevicePart, Post, PostedSemaphore, Situation
from wavesim.sim.streams.stream_order import StreamOperation


def situation_of_seed(seed: int) -> Situation:
    """A situation in which every block can run."""
    random = Random(f"hang {seed}")
    parts = [part_of(random, name) for name in ("gpu0", "gpu1")[: random.choice([1, 1, 2])]]
    count = random.choice([2, 2, 3, 3, 3, 4])
    is_plain = random.random() < 0.35
    one_block = random.choice(BLOCKS) if random.random() < 0.4 else None
    operations: list[StreamOperation] = []
    blocking: dict[tuple[str, str], bool] = {}
    for name in "abcd"[:count]:
        block = one_block or random.choice(BLOCKS)
        one = operation_of(random, name, block, parts, operations, is_plain=is_plain)
        blocking.setdefault((one.process, one.stream), one.is_blocking)
        operations.append(replace(one, is_blocking=blocking[one.process, one.stream]))
    waits, semaphores = waits_of(random, operations, is_plain=is_plain)
    return Situation(f"seed {seed}", parts, operations, waits, semaphores)


def part_of(random: Random, name: str) -> DevicePart:
    device = load("toy").with_sm_count(random.choice([1, 2, 2, 3, 3, 4]))
    is_mps, queues = random.random() < 0.5, 1 if random.random() < 0.05 else 8
    return DevicePart(name, device, is_mps=is_mps, queues=queues)


def operation_of(
    random: Random,
    name: str,
    block: Block,
    parts: list[DevicePart],
    before: list[StreamOperation],
    *,
    is_plain: bool,
) -> StreamOperation:
    part = random.choice(parts)
    blocks = random.choice([1, 1, 2, 2, 3, 4])
    one = StreamOperation(
        name,
        part.name,
        blocks=blocks,
        block=block,
        carveout=random.choice(["full", "full", "default"]),
        stream=name,
        is_blocking=False,
        priority=random.choice([0, 0, 0, -1]),
    )
    if is_plain:
        return one
    names = [other.name for other in before]
    one = replace(
        one,
        stream=random.choice(["s", "t", name, name, "legacy"]),
        is_blocking=random.random() < 0.2,
        process=random.choice(["", "", "", "other"]),
        is_dependent=random.random() < 0.3,
        trigger=random.choice(["start", "start", "end"]),
        after=tuple(random.sample(names, 1)) if names and random.random() < 0.1 else (),
        host_after=tuple(random.sample(names, 1)) if names and random.random() < 0.05 else (),
        after_start=tuple(random.sample(names, 1)) if names and random.random() < 0.15 else (),
    )
    kind = random.random()
    if kind < 0.05:
        return replace(one, kind=random.choice(["copy", "host"]), blocks=0)
    if kind < 0.12 and part.device.sm_count > 1:
        return replace(one, cluster=2, blocks=2 * random.choice([1, 2]))
    if kind < 0.17:
        return replace(one, is_cooperative=True, blocks=random.randint(1, part.device.sm_count))
    return one


def waits_of(
    random: Random, operations: list[StreamOperation], *, is_plain: bool
) -> tuple[list[BlockWait], list[PostedSemaphore]]:
    """Mostly for earlier kernels; now and then for a later one, itself, or a semaphore."""
    waits, semaphores = list[BlockWait](), list[PostedSemaphore]()
    for i, one in enumerate(operations):
        for j, other in enumerate(operations):
            near = i == j + 1
            chance = 0.8 if near and is_plain else 0.45 if near else 0.2 if j < i else 0.1 if j > i else 0.12
            if random.random() >= chance:
                continue
            size = max(1, other.blocks)
            until = "start" if i == j else random.choice(["end", "end", "end", "start"])
            form = random.random()
            has_units = any(op.is_cooperative or op.cluster > 1 for op in (one, other))
            if (
                form < 0.25
                and not has_units
                and one.blocks % 2 == other.blocks % 2 == 0 < min(one.blocks, other.blocks)
            ):
                waits.append(BlockWait(one.name, other.name, "row", until, rows=2))
            elif form < 0.45:
                waits.append(BlockWait(one.name, other.name, random.randint(1, size), until))
            elif form < 0.6 and i != j:
                name, each = f"{one.name}{other.name}", random.randint(1, 2)
                value = random.randint(1, size * each + (random.random() < 0.1))
                semaphores.append(PostedSemaphore(name, (Post(other.name, each, until=until),)))
                waits.append(BlockWait(one.name, semaphore=name, value=value))
            else:
                waits.append(BlockWait(one.name, other.name, "all", until))
    return waits, semaphores
