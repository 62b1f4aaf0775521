"""Safety verdicts in words: how a plan deadlocks or why it cannot, and what that rests on.

Example: "can deadlock: 4 blocks of gemm2 can be resident at once and wait for tiles of gemm1; that leaves no
room for a block of gemm1 on any of 4 SMs. Keep the wait-kernel".
"""

from collections.abc import Collection

from wavesim.model.device import Device, catalogue_name, issue_order_seen
from wavesim.safety.verdict import Assumption, WorstCase

_WAIT_KERNEL = "wait-kernel of "


def wait_kernel_of(stage: str) -> str:
    """The name of a stage's wait-kernel in a worst case."""
    return f"{_WAIT_KERNEL}{stage}"


def stage_of(name: str) -> str:
    """The stage of a block or wait-kernel in a worst case."""
    return name.removeprefix(_WAIT_KERNEL)


def needs_text(assumptions: Collection[Assumption], device: Device, needed: int) -> dict[Assumption, str]:
    """Each assumption in words. `needed`: how many SMs must be free of other work."""
    name = catalogue_name(device.name)
    seen = issue_order_seen(name)
    where = f"seen on {' and '.join(seen)}" + ("" if name in seen else f", not on {name}")
    free = f"{needed} of {_sms(device.sm_count)} free of other work, also of a second copy of this plan"
    room = f", with {free}" if needed > 1 and Assumption.IDLE not in assumptions else ""
    words = {
        Assumption.ROOM: f"issue of blocks wherever an SM has room, while others spin ({where}){room}",
        Assumption.ORDER: f"issue of the oldest launch's blocks first ({where})",
        Assumption.IDLE: f"an otherwise idle GPU ({free})",
    }
    return {one: text for one, text in words.items() if one in assumptions}


def unsafe_text(case: WorstCase, *, is_exact: bool) -> str:
    """Why a plan can deadlock, and what to do."""
    place = "SM" if case.cluster == 1 else f"{case.cluster} neighbouring SMs"
    if not is_exact:
        return (
            f"may deadlock: too many ways to place the waiting blocks to rule out that they leave no "
            f"room for {_block_of(case.starved)} on any of {_sms(case.sm_count)}. Keep the wait-kernel"
        )
    waiting = dict.fromkeys(name for sm in case.residents for name in sm)
    awaited = dict.fromkeys(fact for name in waiting for fact in case.waits_for[name])
    is_own_fault = any(name.startswith(_WAIT_KERNEL) for name in waiting)
    fix = "Use a device with more SMs, or smaller blocks" if is_own_fault else "Keep the wait-kernel"
    return (
        f"can deadlock: {_counted(case)} can be resident at once and wait for {' and '.join(awaited)}; "
        f"that leaves no room for {_block_of(case.starved)} on any of {_sms(case.sm_count)}"
        f"{'' if case.cluster == 1 else f' with {place} to itself'}. {fix}"
    )


def safe_text(case: WorstCase, *, is_exact: bool) -> str:
    """Why a plan cannot deadlock."""
    if not case.closed_sms:
        return f"safe: whoever waits, every SM has room for {_block_of(case.starved)}"
    at_most = "" if is_exact else "at most "
    closed, free = f"{at_most}{case.closed_sms} of {_sms(case.sm_count)}", case.free_sms
    return (
        f"safe: at worst {_counted(case)} can be resident at once and wait; that closes {closed} to "
        f"{case.starved}, which can run on the other{'' if free == 1 else f' {free}'}"
    )


def _counted(case: WorstCase) -> str:
    """Who waits, with numbers: "4 blocks of gemm2 and 1 of gemm3"."""
    counts: dict[str, int] = {}
    for name in (name for sm in case.residents for name in sm):
        counts[name] = counts.get(name, 0) + 1
    words = [
        f"the {name}" if name.startswith(_WAIT_KERNEL) else f"{count} block{'s' * (count > 1)} of {name}"
        for name, count in counts.items()
    ]
    return " and ".join(words) if words else "waiting blocks"


def _block_of(name: str) -> str:
    return f"the {name}" if name.startswith(_WAIT_KERNEL) else f"a block of {name}"


def _sms(count: int) -> str:
    return f"{count} SM{'s' * (count > 1)}"
