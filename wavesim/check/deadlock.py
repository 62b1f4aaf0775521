"""Can a plan deadlock on a device? Waiting blocks hold their slots, and nothing is pre-empted.

Example: Figure 1 without its wait-kernel. If the consumer's launch reaches the device first, four of
its blocks take the four SMs and spin; the producer's blocks, which would end the wait, are never
issued. With five SMs and four consumer blocks one SM stays free, and the producer runs on it.

The rule. Without a wait-kernel the launches reach the device in any order, so every consumer block
may be resident before any producer. A plan is safe if, however they are placed, they leave room for the next
block of every kernel that still has some: also of a consumer, because blocks are issued in launch order and
what stands behind a block that does not fit waits too. With a wait-kernel a consumer's blocks come
after all of its producers', and only the wait-kernels themselves hold slots while nothing runs.
Tile orders, policies and times don't matter: in the worst case not a single tile is finished.

It is not the paper's rule (IV-C: no wait-kernel where both kernels take less than two waves), which
accepts Figure 1 on four SMs. No order is assumed between streams, as in a CUDA graph's branches.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from wavesim.check.residency import Waiting, close_sms
from wavesim.model.device import Device
from wavesim.model.kernel import WAIT_KERNEL, Block
from wavesim.model.pipeline import Pipeline
from wavesim.plan.plan import Plan, check_plan
from wavesim.sim.placement import Footprint, footprint


@dataclass(frozen=True)
class WorstCase:
    """The most that waiting blocks can take from one kernel.

    `closed_sms` of `sm_count` SMs have no room for a block of `starved`; `residents` names, for
    each of them, the waiting blocks on it, and `waits_for` what each of those waits for. `shares`
    are the parts of an SM, 0 to 1, that a block takes: of the resource of which it takes most.
    """

    starved: str
    closed_sms: int
    sm_count: int
    residents: tuple[tuple[str, ...], ...]
    waits_for: Mapping[str, tuple[str, ...]]
    shares: Mapping[str, float]

    @property
    def free_sms(self) -> int:
        """SMs on which the kernel's next block can still be issued."""
        return self.sm_count - self.closed_sms


@dataclass(frozen=True)
class SafetyVerdict:
    """Whether a plan can deadlock, why in words, and the worst case (None where no block ever waits)."""

    is_safe: bool
    reason: str
    worst: WorstCase | None = None


def safety_of(
    pipeline: Pipeline, plan: Plan, device: Device, blocks: Mapping[str, Block] | None = None
) -> SafetyVerdict:
    """The verdict on a plan. Never calls a plan safe that can deadlock; see the tests for the other side.

    `blocks`: what the blocks of stages occupy where that is not what the pipeline describes.
    Raises `DescriptionError` for a plan that does not fit the pipeline and blocks that no SM can hold.
    """
    check_plan(pipeline, plan)
    if not plan.waits_for_grids and not (plan.sync.has_semaphores and pipeline.dependencies):
        return SafetyVerdict(True, "safe: no block waits on a semaphore")
    reason = plan.schedule.why_safe or plan.launch.why_safe
    if reason:
        return SafetyVerdict(True, f"safe: {reason}")
    consumers = frozenset(dependency.consumer.stage.name for dependency in pipeline.dependencies)
    guarded = consumers if plan.launch.wait_kernel else frozenset()
    return Adversary(pipeline, device, guarded, blocks).verdict()


class Adversary:
    """The worst-case hardware: it chooses which launch reaches the device when, and on which SM a block
    lands.

    `guarded` are the consumers that stand behind a wait-kernel.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        device: Device,
        guarded: frozenset[str],
        blocks: Mapping[str, Block] | None = None,
    ) -> None:
        self._pipeline, self._device, self._guarded = pipeline, device, guarded
        self._producers = {
            stage.name: dependency.producers if (dependency := pipeline.dependency_of(stage.name)) else ()
            for stage in pipeline.stages
        }
        kernels = {stage.name: stage.kernel for stage in pipeline.stages}
        for name, block in (blocks or {}).items():
            kernels[name] = replace(kernels[name], block=block)
        self._footprints = {name: footprint(device, kernel) for name, kernel in kernels.items()}
        self._wait_kernel = footprint(device, WAIT_KERNEL)

    def verdict(self) -> SafetyVerdict:
        """The verdict on the kernel that can be starved most; of equals the first in launch order."""
        heads = [(name, False) for name in self._producers] + [(name, True) for name in sorted(self._guarded)]
        worst = max((self._against(*head) for head in heads), key=lambda found: found[0].closed_sms)
        case, is_exact = worst
        is_safe = case.closed_sms < case.sm_count
        return SafetyVerdict(is_safe, (_safe_text if is_safe else _unsafe_text)(case, is_exact), case)

    def _against(self, name: str, is_wait_kernel: bool) -> tuple[WorstCase, bool]:
        """The worst case for a stage's next block, or for a stage's wait-kernel."""
        waiting = self._waiting(name, is_wait_kernel)
        head = self._wait_kernel if is_wait_kernel else self._footprints[name]
        found = close_sms(self._device, waiting, head, self._passing(name, is_wait_kernel))
        starved = _wait_kernel_of(name) if is_wait_kernel else name
        footprints = {starved: head} | {kind.name: kind.footprint for kind in waiting}
        case = WorstCase(
            starved=starved,
            closed_sms=found.closed,
            sm_count=self._device.sm_count,
            residents=found.residents,
            waits_for={kind.name: self._awaited(kind.name) for kind in waiting},
            shares={name: self._share(kind) for name, kind in footprints.items()},
        )
        return case, found.is_exact

    def _share(self, block: Footprint) -> float:
        device = self._device
        return max(
            block.warps / device.max_warps_per_sm,
            block.registers / device.registers_per_sm,
            block.shared_bytes / device.shared_bytes_per_sm,
            1 / device.max_blocks_per_sm,
        )

    def _waiting(self, name: str, is_wait_kernel: bool) -> list[Waiting]:
        """All blocks that can be resident and wait while the head has not been issued."""
        started = set() if is_wait_kernel else self._issued_before(name)
        found = []
        for stage in self._pipeline.stages:
            kind = stage.name
            is_head = kind == name and not is_wait_kernel
            count = stage.grid.size - is_head
            if self._can_wait(kind) and name not in self._issued_before(kind) and count:
                found.append(Waiting(kind, self._footprints[kind], count))
            stands_alone = kind in self._guarded and kind != name and kind not in started
            if stands_alone and not set(self._producers[kind]) <= started:
                found.append(Waiting(_wait_kernel_of(kind), self._wait_kernel, 1))
        return found

    def _passing(self, name: str, is_wait_kernel: bool) -> list[Waiting]:
        """All blocks that can have been resident before the head is issued."""
        stages = [
            Waiting(stage.name, self._footprints[stage.name], stage.grid.size)
            for stage in self._pipeline.stages
            if is_wait_kernel or name not in self._issued_before(stage.name)
        ]
        return [*stages, *(Waiting(_wait_kernel_of(kind), self._wait_kernel, 1) for kind in self._guarded)]

    def _issued_before(self, name: str) -> set[str]:
        """Stages whose last block has been issued when a stage's first one is."""
        if name not in self._guarded:
            return set()
        producers = self._producers[name]
        return set(producers).union(*(self._issued_before(producer) for producer in producers))

    def _can_wait(self, name: str) -> bool:
        """Whether a stage's blocks can wait for tiles that are not being made."""
        producers = self._producers[name]
        is_free = bool(producers) and name not in self._guarded
        return is_free or any(self._can_wait(producer) for producer in producers)

    def _awaited(self, name: str) -> tuple[str, ...]:
        stage = name.removeprefix(_wait_kernel_of(""))
        words = "start of {}" if name != stage else "tiles of {}"
        return tuple(words.format(producer) for producer in self._producers[stage])


def _wait_kernel_of(stage: str) -> str:
    return f"wait-kernel of {stage}"


def _counted(case: WorstCase) -> str:
    """Who waits, with numbers: "4 blocks of gemm2 and 1 of gemm3"."""
    counts: dict[str, int] = {}
    for name in (name for sm in case.residents for name in sm):
        counts[name] = counts.get(name, 0) + 1
    words = [
        f"the {name}"
        if name.startswith(_wait_kernel_of(""))
        else f"{count} block{'s' * (count > 1)} of {name}"
        for name, count in counts.items()
    ]
    return " and ".join(words) if words else "no waiting block"


def _block_of(name: str) -> str:
    return f"the {name}" if name.startswith(_wait_kernel_of("")) else f"a block of {name}"


def _unsafe_text(case: WorstCase, is_exact: bool) -> str:
    if not is_exact:
        return (
            f"may deadlock: too many ways to place the waiting blocks to rule out that they leave no "
            f"room for {_block_of(case.starved)} on any of {_sms(case.sm_count)}. Keep the wait-kernel"
        )
    waiting = dict.fromkeys(name for sm in case.residents for name in sm)
    awaited = dict.fromkeys(fact for name in waiting for fact in case.waits_for[name])
    is_own_fault = any(name.startswith(_wait_kernel_of("")) for name in waiting)
    fix = "Use a device with more SMs, or smaller blocks" if is_own_fault else "Keep the wait-kernel"
    return (
        f"can deadlock: {_counted(case)} can be resident at once and wait for {' and '.join(awaited)}; "
        f"that leaves no room for {_block_of(case.starved)} on any of {_sms(case.sm_count)}. {fix}"
    )


def _safe_text(case: WorstCase, is_exact: bool) -> str:
    if not case.closed_sms:
        return f"safe: whoever waits, every SM has room for {_block_of(case.starved)}"
    at_most = "" if is_exact else "at most "
    closed, free = f"{at_most}{case.closed_sms} of {_sms(case.sm_count)}", case.free_sms
    return (
        f"safe: at worst {_counted(case)} can be resident at once and wait; that closes {closed} to "
        f"{case.starved}, which can run on the other{'' if free == 1 else f' {free}'}"
    )


def _sms(count: int) -> str:
    return f"{count} SM{'s' * (count > 1)}"
