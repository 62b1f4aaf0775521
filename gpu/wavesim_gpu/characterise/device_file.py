"""The file of a device: its figures as the driver reports them, and every constant that was measured.

Example: `text_of(device, readings, conditions, "2026-11-22")` is what `--device my.toml` reads.
"""

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

from wavesim.costs.constants import unit_of
from wavesim.model.device import Device
from wavesim_gpu.characterise.clock import REACHED
from wavesim_gpu.characterise.readings import MeasuredConstant
from wavesim_gpu.driver.current_gpu import GpuState, disturbances

HEAD = (
    "# Made by `python -m wavesim_gpu characterise`, and replaced as a whole. "
    "Each constant: value, unit, source, date."
)
# What a microbenchmark need not measure.
GIVEN = {
    "overheads.launch_ns": "0 by definition: launches are queued ahead; between kernels is boundary_ns",
    "overheads.block_ns": "0 by definition: a kernel begins with its first block's first instruction",
    "overheads.prologue_epilogue_ns": "0 by definition: a kernel's own, not the device's",
    "overheads.wait_ns": "0 by definition: a wait on a ready semaphore is poll_ns, once a block",
    "overheads.post_visibility_ns": "0 by definition: semaphore.latency_ns is in what a spinning block waits",
    "kernel_times.launch_ns": "0 by definition: kernel times are from first block to last",
}


def conditions_of(
    state: GpuState, versions: Mapping[str, str], readings: Sequence[MeasuredConstant]
) -> dict[str, str | int | float | bool]:
    """What else was true of the GPU: software, power limit, others' work, and clocks that were held."""
    told = {name: value for name, value in state.readings.items() if name != "other_pids"}
    conditions: dict[str, Any] = {name: text for name, text in versions.items() if text}
    conditions |= told | {"sm_count": state.device.sm_count, "whole_sm_count": state.whole_sm_count}
    conditions["other_processes"] = len(state.other_pids)
    wrong = [*disturbances(state), *([state.held_clock] if state.held_clock else [])]
    cap = capped_clock(state, readings)
    wrong += [cap] if cap else []
    return conditions | ({"as_found": "; ".join(wrong)} if wrong else {})


def capped_clock(state: GpuState, readings: Sequence[MeasuredConstant]) -> str:
    """That the SM clock stays below its highest even where SMs only wait; "" if it does not."""
    light = next((reading.value for reading in readings if reading.name == "clock.light_ghz"), None)
    most_mhz = state.most_clock_mhz or state.device.clock_hz / 1e6
    if light is None or light * 1000 >= REACHED * most_mhz:
        return ""
    return f"the SM clock is locked or capped: waiting SMs ran at {light * 1000:,.0f} of {most_mhz:,.0f} MHz"


def text_of(
    device: Device, readings: Sequence[MeasuredConstant], conditions: Mapping[str, Any], date: str
) -> str:
    """The whole file as TOML."""
    own = {
        item.name: getattr(device, item.name)
        for item in fields(Device)
        if item.name not in ("name", "sources")
    }
    given = [MeasuredConstant(name, [0], source) for name, source in GIVEN.items()]
    return "\n".join(
        [
            HEAD,
            "",
            f"source = {_toml(f'microbenchmarks of `wavesim_gpu characterise` on one {device.name}')}",
            f"driver_names = {_toml([device.name])}",
            *(f"{name} = {_toml(value)}" for name, value in own.items()),
            "",
            "[sources]",
            *(f"{name} = {_toml(device.sources[name])}" for name in own if name != "compute_capability"),
            *_issue_order(readings, date),
            "",
            "[conditions]",
            *(f"{name} = {_toml(value)}" for name, value in conditions.items()),
            *(line for reading in (*given, *readings) for line in _section(reading, date)),
            "",
        ]
    )


def _issue_order(readings: Sequence[MeasuredConstant], date: str) -> list[str]:
    """What safety verdicts rest on, where it was seen."""
    seen = [reading for reading in readings if reading.name == "dispatch.oldest_first" and reading.value]
    return [
        line
        for entry in seen
        for line in ("", "[issue_order]", f"source = {_toml(entry.source)}", f"date = {_toml(date)}")
    ]


def _section(reading: MeasuredConstant, date: str) -> list[str]:
    unit, spread = unit_of(reading.name), reading.spread
    return [
        "",
        f"[{reading.name}]",
        f"value = {_toml(_rounded(reading.value, unit))}",
        f"unit = {_toml(unit)}",
        f"source = {_toml(reading.source)}",
        f"date = {_toml(date)}",
        *([] if spread is None else [f"spread = {spread:.4f}"]),
    ]


def _rounded(value: Any, unit: str) -> Any:
    """A number with the digits that mean something."""
    if unit in ("ns", "bytes"):
        return round(value)
    return float(f"{value:.4g}") if isinstance(value, float) else value


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_toml, value))}]"
    return f"{value:_}" if isinstance(value, int) else f"{value:.10g}"
