"""Warps of one SM that issue loads and wait for them, and bandwidth over bytes in flight, as plain values.

Example: eight warps with a load each have 4 KB in flight; their rows are nearly all waiting, the memory's row
is busy a fifth of the time, and the dot on the curve below stands far left of the bend.
"""

from dataclasses import dataclass, replace
from typing import Any

from wavesim.sm.loads import LoadLoop, in_flight_bytes, littles_share, queued_share, simulated_share
from wavesim.sm.machine import SmMachine
from wavesim.sm.measured_loads import MeasuredLoads
from wavesim.sm.sm_simulation import busy_spans, simulate_sm

KIB = 1024
SHOWN_ROUNDS = 3  # round trips on the time axis
LEAST_CURVE_BYTES, STEPS_PER_DOUBLING, CURVE_STEPS = 512, 4, 36  # to 256 KiB
FULL_SHARE = 0.985  # of the bandwidth


@dataclass(frozen=True)
class ShownLoads:
    """A load loop on one SM; `gpu` is how many SMs share how many channels on the curve."""

    loop: LoadLoop
    machine: SmMachine
    gpu: tuple[int, int] = (1, 1)
    measured: MeasuredLoads | None = None


def scene_of_loads(shown: ShownLoads) -> dict[str, Any]:
    """Rows of warps, the memory's row, and the curve."""
    loop, machine = shown.loop, shown.machine
    share = simulated_share(loop, machine)
    run = simulate_sm(loop.kernel(SHOWN_ROUNDS + 1), machine, records=True)
    end = min(run.cycles, _horizon(loop, machine))
    return {
        "title": _title(loop, machine, share),
        "subtitle": _facts(loop, machine),
        "end": end,
        "warps": [
            [[span.start, min(span.end, end), span.doing] for span in run.spans if _is_of(span, warp, end)]
            for warp in range(loop.warps)
        ],
        "memory": [[round(a, 1), round(min(b, end), 1)] for a, b in busy_spans(run.served) if a < end],
        "share": share,
        "inFlight": in_flight_bytes(loop, machine),
        "needed": machine.bytes_per_cycle * machine.latency_cycles,
        "curve": _curve(shown),
        "measured": [list(point) for point in shown.measured.shares] if shown.measured else [],
        "measuredOn": f"measured on {shown.measured.device}" if shown.measured else "",
    }


def _is_of(span: Any, warp: int, end: int) -> bool:
    return bool(span.warp == warp and span.start < end)


def _horizon(loop: LoadLoop, machine: SmMachine) -> int:
    """Cycles on the time axis: some round trips, or as many as the queue makes of them."""
    queued = in_flight_bytes(loop, machine) / machine.bytes_per_cycle
    return round(SHOWN_ROUNDS * max(machine.latency_cycles, queued))


def _curve(shown: ShownLoads) -> list[list[float]]:
    """(bytes in flight, share by Little's law, share with queues) of ever more loads of that size."""
    sms, channels = shown.gpu
    machine = replace(shown.machine, sms=sms, channels=channels)
    sizes = [LEAST_CURVE_BYTES * 2 ** (step / STEPS_PER_DOUBLING) for step in range(CURVE_STEPS + 1)]
    bend = machine.bytes_per_cycle * machine.latency_cycles
    return [
        [size, littles_share(size, machine), queued_share(size, shown.loop.load_bytes, machine)]
        for size in sorted([*sizes, min(max(bend, sizes[0]), sizes[-1])])
    ]


def _title(loop: LoadLoop, machine: SmMachine, share: float) -> str:
    flying = in_flight_bytes(loop, machine)
    found = f"{kib(flying)} in flight: {share:.0%} of the bandwidth".replace("%", " %")
    if share >= FULL_SHARE:
        return f"{found}. The memory is the limit"
    if flying < loop.in_flight_bytes:
        return f"{found}. The SM can have no more loads on their way"
    return f"{found}. The memory waits for loads"


def _facts(loop: LoadLoop, machine: SmMachine) -> str:
    needed = machine.bytes_per_cycle * machine.latency_cycles
    rate = f"{machine.latency_cycles} cycles of latency at {machine.bytes_per_cycle:.3g} bytes per cycle"
    return (
        f"{_plural(loop.warps, 'warp')}, {_plural(loop.loads, 'load')} of {loop.load_bytes} bytes each "
        f"before a wait. {rate} take {kib(needed)} in flight. One SM, simulated"
    )


def kib(size: float) -> str:
    """Bytes in KiB, with a digit where they are few."""
    return f"{size / KIB:.0f} KiB" if size >= 10 * KIB else f"{size / KIB:.1f} KiB"


def _plural(count: int, word: str) -> str:
    return f"{count} {word}{'' if count == 1 else 's'}"
