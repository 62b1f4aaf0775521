"""Safety verdicts as values: whether a plan can deadlock, the worst case, and what the answer rests on.

Example: with a wait-kernel GPT-3's MLP is safe if blocks are issued oldest launch first, which CUDA does not
promise and an H200 was seen to do; by dependent launch it is safe by what CUDA promises alone. The
assumptions are independent of each other; a verdict carries the set that it needs.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Literal, get_args

from wavesim.errors import DescriptionError
from wavesim.model.device import Device, catalogue_name, issue_order_seen
from wavesim.safe_io.bounds import shown

Basis = Literal["cuda", "seen", "idle"]
BASES: tuple[Basis, ...] = get_args(Basis)  # strongest first


class Assumption(Enum):
    """What a plan's safety can need besides what CUDA promises.

    `ROOM`: a block is issued wherever an SM has room for it, also while blocks of other kernels spin.
    `ORDER`: blocks are issued oldest launch first, so that a producer's go before those of a consumer behind
    a wait-kernel, also where a producer's block does not fit yet and a consumer's would. `IDLE`: other work
    (a process, a stream, a second copy of the plan) leaves SMs alone. `LAUNCH`: what the host sees to, and
    generated code and our runners do: kernels are loaded before the first waits, the streams have one
    priority, and the kernels ask for the carve-out that is described.
    """

    ROOM = "room"
    ORDER = "order"
    IDLE = "idle"
    LAUNCH = "launch"


LARGEST = "largest shared-memory carve-out (cudaFuncAttributePreferredSharedMemoryCarveout = 100)"
CARVEOUT_REMEDY = f"Or let every kernel ask for the {LARGEST}, which makes it safe"


@dataclass(frozen=True)
class WorstCase:
    """The most that waiting blocks can take from one kernel.

    `closed_sms` of `sm_count` SMs have no room for a block of `starved`; `residents` names, for
    each of them, the waiting blocks on it, and `waits_for` what each of those waits for. `shares`
    are the parts of an SM, 0 to 1, that a block takes: of the resource of which it takes most. `cluster`
    blocks of `starved` are issued together, to as many neighbouring SMs: `closed_sms` are of a place each.
    """

    starved: str
    closed_sms: int
    sm_count: int
    residents: tuple[tuple[str, ...], ...]
    waits_for: Mapping[str, tuple[str, ...]]
    shares: Mapping[str, float]
    cluster: int = 1

    @property
    def free_sms(self) -> int:
        """SMs on which the kernel's next block can still be issued, or pairs of them for its next cluster."""
        return self.places - self.closed_sms

    @property
    def places(self) -> int:
        """Places for a cluster, of which a closed SM takes one: the SMs, or pairs of them."""
        return self.sm_count // self.cluster

    @property
    def needed_sms(self) -> int:
        """SMs that other work must leave alone, so that a place is left wherever the waiting blocks are."""
        return self.sm_count - self.places + self.closed_sms + 1

    @property
    def is_safe(self) -> bool:
        """Whether a place is left."""
        return self.closed_sms < self.places


@dataclass(frozen=True)
class SafetyVerdict:
    """Whether a plan can deadlock, why in words, and the worst case (None where no block ever waits).

    `needs`: each assumption that a safe plan rests on, in words; none where CUDA promises all of it.
    `needed_sms`: how many SMs other work must leave alone for ever; a plan without assumptions needs room for
    one block at a time.
    """

    is_safe: bool
    reason: str
    worst: WorstCase | None = None
    needs: Mapping[Assumption, str] = field(default_factory=dict)
    needed_sms: int = 1

    @property
    def basis(self) -> Basis | None:
        """The weakest link: "cuda" promised, "seen" on listed devices, "idle" beside no other work; None
        where the plan is not safe.
        """
        if not self.is_safe:
            return None
        return "idle" if Assumption.IDLE in self.needs else "seen" if self.needs else "cuda"

    @property
    def rests_on(self) -> str:
        """What a safe verdict rests on, in words; "" for a plan that is not safe."""
        if not self.is_safe:
            return ""
        return "; ".join(self.needs.values()) or "what CUDA promises"

    @property
    def short(self) -> str:
        """The same in a few words: "CUDA guarantees it", or what it needs besides."""
        if not self.needs:
            return "CUDA guarantees it"
        idle = "an otherwise idle GPU" if Assumption.IDLE in self.needs else ""
        order = "blocks issue oldest launch first" if Assumption.ORDER in self.needs else ""
        room = "" if idle or order else "blocks issue beside others that spin"
        free = f"{self.needed_sms} SMs stay free" if self.needed_sms > 1 and not idle else ""
        return " and ".join(filter(None, (idle, order, room, free)))

    @property
    def text(self) -> str:
        """One line for people: "safety: rests on ..." or why the plan can deadlock."""
        return f"safety: rests on {self.rests_on}" if self.is_safe else f"safety: {self.reason}"

    @property
    def line(self) -> str:
        """The short form as a sentence: "safe: CUDA guarantees it", "safe only if ...", or why it is not."""
        if not self.is_safe:
            return self.text
        return f"safe only if {self.short}" if self.needs else f"safe: {self.short}"

    def is_accepted(self, accept: Basis) -> bool:
        """Whether the plan is safe on a basis at least as strong as `accept`. Raises `DescriptionError`."""
        weakest = BASES.index(require_basis(accept))
        return self.basis is not None and BASES.index(self.basis) <= weakest

    def as_json(self) -> dict[str, Any]:
        """For `--json`: `{"is_safe", "basis", "rests_on", "needed_sms", "reason"}`."""
        return {
            "is_safe": self.is_safe,
            "basis": self.basis,
            "rests_on": list(self.needs.values()),
            "needed_sms": self.needed_sms if self.is_safe else None,
            "reason": self.reason,
        }


def require_basis(accept: str) -> Basis:
    """The word as a basis. Raises `DescriptionError`."""
    for basis in BASES:
        if accept == basis:
            return basis
    raise DescriptionError(f"accept is {shown(accept)}; it must be one of {', '.join(BASES)}")


_WAIT_KERNEL = "wait-kernel of "


def wait_kernel_of(stage: str) -> str:
    """The name of a stage's wait-kernel in a worst case."""
    return f"{_WAIT_KERNEL}{stage}"


def stage_of(name: str) -> str:
    """The stage of a block or wait-kernel in a worst case."""
    return name.removeprefix(_WAIT_KERNEL)


def needs_text(
    assumptions: Collection[Assumption], device: Device, needed: int, asking: str = ""
) -> dict[Assumption, str]:
    """Each assumption in words. `needed`: how many SMs must be free of other work; `asking`: the kernels that
    ask for the largest carve-out.
    """
    name = catalogue_name(device.name)
    seen = issue_order_seen(name)
    where = f"seen on {' and '.join(seen)}" + ("" if name in seen else f", not on {name}")
    free = f"{needed} of {_sms(device.sm_count)} free of other work, also of a second copy of this plan"
    room = f", with {free}" if needed > 1 and Assumption.IDLE not in assumptions else ""
    words = {
        Assumption.ROOM: f"issue of blocks wherever an SM has room, while others spin ({where}){room}",
        Assumption.ORDER: f"issue of the oldest launch's blocks first, no other passing them ({where})",
        Assumption.IDLE: f"an otherwise idle GPU ({free})",
        Assumption.LAUNCH: "kernels loaded before the first of them waits, on streams of one priority"
        + (f", with the {LARGEST} for {asking}" if asking else ""),
    }
    return {assumption: text for assumption, text in words.items() if assumption in assumptions}


def unsafe_text(case: WorstCase, *, is_exact: bool) -> str:
    """Why a plan can deadlock, and what to do."""
    if not is_exact:
        return (
            f"may deadlock: too many ways to place the waiting blocks to rule out that they leave no "
            f"room for {_block_of(case.starved)} on any of {_places(case)}. Keep the wait-kernel"
        )
    waiting = dict.fromkeys(name for sm in case.residents for name in sm)
    awaited = dict.fromkeys(fact for name in waiting for fact in case.waits_for[name])
    is_own_fault = any(name.startswith(_WAIT_KERNEL) for name in waiting)
    fix = "Use a device with more SMs, or smaller blocks" if is_own_fault else "Keep the wait-kernel"
    return (
        f"can deadlock: {_counted(case)} can be resident at once and wait for {' and '.join(awaited)}; "
        f"that leaves no room for {_block_of(case.starved, case.cluster)} on any of {_places(case)}. {fix}"
    )


def safe_text(case: WorstCase, *, is_exact: bool) -> str:
    """Why a plan cannot deadlock."""
    if not case.closed_sms:
        return f"safe: whoever waits, every SM has room for {_block_of(case.starved)}"
    at_most = "" if is_exact else "at most "
    closed, free = f"{at_most}{case.closed_sms} of {_places(case)}", case.free_sms
    return (
        f"safe: at worst {_counted(case)} can be resident at once and wait; that closes {closed} to "
        f"{case.starved}, which can run on the other{'' if free == 1 else f' {free}'}"
    )


def _counted(case: WorstCase) -> str:
    counts: dict[str, int] = {}
    for name in (name for sm in case.residents for name in sm):
        counts[name] = counts.get(name, 0) + 1
    words = [
        f"the {name}" if name.startswith(_WAIT_KERNEL) else f"{count} block{'s' * (count > 1)} of {name}"
        for name, count in counts.items()
    ]
    return " and ".join(words) if words else "waiting blocks"


def _block_of(name: str, cluster: int = 1) -> str:
    if name.startswith(_WAIT_KERNEL):
        return f"the {name}"
    return f"a block of {name}" if cluster == 1 else f"a cluster of {name}"


def _places(case: WorstCase) -> str:
    if case.cluster == 1:
        return _sms(case.sm_count)
    return f"{case.places} pair{'s' * (case.places > 1)} of neighbouring SMs"


def _sms(count: int) -> str:
    return f"{count} SM{'s' * (count > 1)}"
