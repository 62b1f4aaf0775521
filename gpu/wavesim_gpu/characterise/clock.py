"""The SM clock and the power under tensor load, on some SMs and on all, for long and for less than a ms.

Example: with one SM at work the clock is 1.98 GHz, with all 132 it is 1.4 at 690 W. Where half of the SMs
stop for 0.4 ms, the others run 2.5 % faster meanwhile.
"""

from typing import Any

import numpy as np

from wavesim_gpu.characterise.bench import MicroBench
from wavesim_gpu.characterise.readings import MeasuredConstant
from wavesim_gpu.driver.clocks import Sampler

FILE, THREADS, SHARED_BYTES = "load.cu", 256, 48 * 1024
SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)  # of the SMs; the first is one SM
STEADY_NS, STEADY_PHASES, PASSES = 50_000_000, 6, 4
SHORT_PASSES, SHORT_WARM_UPS = 15, 5
SHORT_NS, SHORT_PHASES = 400_000, 200
GAIN_SHARES = (0.1, 0.5)
REACHED = 0.95  # of the highest clock, that waiting SMs reach unless the clock is locked
PARAMS = np.dtype(
    {
        "names": ["stamps", "sms", "sink", "phase_ns", "phases", "busy", "is_steady"],
        "formats": ["<u8"] * 4 + ["<i4"] * 3,
        "offsets": [0, 8, 16, 24, 32, 36, 40],
        "itemsize": 48,
    }
)


def measure(bench: MicroBench) -> dict[str, Any]:
    """Raw results: GHz and watts by SMs at work, and clocks of phases with all SMs and with some."""
    counts = [max(1, round(share * bench.sms)) for share in SHARES]
    steady: dict[str, list[dict[str, Any]]] = {str(count): [] for count in counts}
    for turn in range(PASSES):
        for count in counts[:: 1 if turn % 2 == 0 else -1]:
            steady[str(count)].append(_steady(bench, count))
    short: dict[str, list[list[float]]] = {}
    for share in GAIN_SHARES:
        count = max(1, round(share * bench.sms))
        result = [_short(bench, count) for _ in range(SHORT_WARM_UPS + SHORT_PASSES)]
        short[str(count)] = result[SHORT_WARM_UPS:]  # by then power and temperature have settled
    return {"steady": steady, "phases_ghz": short, "sm_count": bench.sms}


def constants(raw: dict[str, Any]) -> list[MeasuredConstant]:
    """Clocks and power of one SM and of all, and how much faster some SMs run while others pause."""
    steady, sms = raw["steady"], raw["sm_count"]
    alone, full = steady[min(steady, key=int)], steady[max(steady, key=int)]
    load = "wgmma or mma.sync without a pause"
    result = [
        MeasuredConstant("clock.single_ghz", _known(alone, "ghz"), f"one SM under {load}, the last 100 ms"),
        MeasuredConstant("clock.full_ghz", _known(full, "ghz"), f"all SMs under {load}, the last 100 ms"),
    ]
    if _known(full, "watts") and _known(alone, "watts"):
        result.append(MeasuredConstant("clock.full_w", _known(full, "watts"), f"NVML, all SMs under {load}"))
        result.append(MeasuredConstant("clock.idle_w", _known(alone, "watts"), f"NVML, one SM under {load}"))
    phases = raw.get("phases_ghz")
    if not phases:
        return result
    fewest = min(phases, key=int)
    gains = [gain(pair, int(fewest) / sms) for pair in phases[fewest]]
    source = (
        f"clock of {fewest} SMs that go on while the others pause for 0.4 ms, over that while all compute"
    )
    result.append(MeasuredConstant("clock.gain", [max(0.0, min(1.0, entry)) for entry in gains], source))
    return result


def gain(clocks: list[float], busy_share: float) -> float:
    """How much higher the clock would be with no SM busy, from (all at work, some at work)."""
    full, part = clocks
    return (part / full - 1) / (1 - busy_share)


def _known(entries: list[dict[str, Any]], name: str) -> list[float]:
    return [entry[name] for entry in entries if entry[name] is not None]


def _steady(bench: MicroBench, count: int) -> dict[str, Any]:
    """`count` SMs at work for 150 ms: the clock of the last two thirds, and power over them."""
    with Sampler() as sampler:
        clocks = _run(bench, count, STEADY_NS, STEADY_PHASES, is_steady=True)
    settled = clocks[:count, clocks.shape[1] // 3 :]
    reading = sampler.reading
    return {
        "ghz": float(np.median(settled)),
        "watts": reading.power_w,
        "nvml_mhz": reading.clock_mhz,
        "by_quarter_ghz": np.median(clocks[:count], axis=0).round(4).tolist(),
    }


def _short(bench: MicroBench, count: int) -> list[float]:
    """(clock while all SMs work, clock while `count` do): medians over later phases and those SMs."""
    clocks = _run(bench, count, SHORT_NS, SHORT_PHASES, is_steady=False)[:count]
    by_phase = clocks.reshape(count, -1, 4)[:, SHORT_PHASES // 2 :, 1:]  # the first quarter still changes
    return [float(np.median(by_phase[:, 0::2])), float(np.median(by_phase[:, 1::2]))]


def _run(bench: MicroBench, count: int, phase_ns: int, phases: int, *, is_steady: bool) -> Any:
    """GHz by block and quarter of a phase, (blocks, 4 * phases); the first quarter has the second's."""
    kernel = bench.kernel(FILE, "phases", SHARED_BYTES)
    stamps = bench.zeros((bench.sms, 4 * phases, 2))
    sms, sink = bench.zeros(bench.sms, np.uint32), bench.zeros(1, np.float32)
    params = np.zeros(1, PARAMS)[0]
    params["stamps"], params["sms"], params["sink"] = stamps.data.ptr, sms.data.ptr, sink.data.ptr
    params["phase_ns"], params["phases"], params["busy"], params["is_steady"] = (
        phase_ns,
        phases,
        count,
        is_steady,
    )
    bench.launch(kernel, bench.sms, THREADS, params, shared=SHARED_BYTES)
    bench.synchronize()
    passed = np.diff(stamps.get().astype(np.int64), axis=1)
    clocks = passed[..., 0] / np.maximum(1, passed[..., 1])
    return np.concatenate([clocks[:, :1], clocks], axis=1)
