"""`python -m wavesim_gpu characterise`: measures the GPU at hand and writes its device file.

Example: `... characterise --out my.toml` on a GPU that nobody has seen takes less than two minutes; after it,
`wavesim tune gpt3-mlp --device my.toml` predicts for that GPU.
"""

import argparse
import json
import re
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType
from typing import Any

from wavesim.errors import DescriptionError, DeviceError
from wavesim.model.device import Device
from wavesim.safe_io.bounds import shown
from wavesim.safe_io.options import integer, number
from wavesim.safe_io.writing import write_text
from wavesim_gpu.characterise import backends, clock, dispatch, launches, memory, semaphores, sharing
from wavesim_gpu.characterise.bench import MicroBench
from wavesim_gpu.characterise.device_file import capped_clock, conditions_of, text_of
from wavesim_gpu.characterise.readings import MeasuredConstant, difference, is_steady, together
from wavesim_gpu.driver.current_gpu import GpuState, require_gpu
from wavesim_gpu.driver.device import versions

HELP = "measure launches, semaphores, memory, clock and sharing of this GPU; writes its device file"
SECONDS = 110.0
MOST_REPEATS = 10
SAME = 0.05  # two runs' difference of a constant, as a share: more is named
# The clock is last: it heats the GPU.
GROUPS: Mapping[str, ModuleType] = {
    "launches": launches,
    "semaphores": semaphores,
    "dispatch": dispatch,
    "sharing": sharing,
    "memory": memory,
    "backends": backends,
    "clock": clock,
}


@dataclass(frozen=True)
class Pass:
    """One pass over all groups: raw results, and the constants that follow from them."""

    raw: Mapping[str, Any]
    readings: Sequence[MeasuredConstant]
    left_out: Sequence[str]


def add_to(commands: Any) -> None:
    """The command and its options."""
    parser = commands.add_parser("characterise", help=HELP, description=f"{HELP}.")
    parser.add_argument("--out", type=Path, help="the device file (the GPU's name, such as nvidia-h200.toml)")
    parser.add_argument("--raw", type=Path, help="also writes all raw results there, as JSON")
    parser.add_argument("--seconds", type=number, help=f"after these no group is begun ({SECONDS:g})")
    parser.add_argument("--repeat", type=integer, default=1, help="measures so often, and compares")
    parser.add_argument(
        "--as-found",
        action="store_true",
        help="also where clocks are held or other work runs; the file says so in [conditions]",
    )
    parser.add_argument("--json", action="store_true", help="one JSON object on standard output")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Measures, writes and prints. Raises `DeviceError` for a GPU that cannot be measured fairly."""
    seconds = SECONDS if options.seconds is None else options.seconds
    _require_options(options.repeat, seconds, options.out, options.raw)
    began = time.monotonic()
    state = require_gpu(may_be_held=options.as_found, may_be_disturbed=options.as_found)
    bench = MicroBench()
    runs = [measured(bench, began + seconds * (turn + 1)) for turn in range(options.repeat)]
    matched = together([entry.readings for entry in runs])
    readings = [reading for reading in matched if is_steady(reading)]
    _require_own_clock(state, readings, is_accepted=options.as_found)
    out = options.out or Path(f"{_slug(bench.device.name)}.toml")
    conditions = conditions_of(state, versions(), readings)
    today = datetime.now(UTC).date().isoformat()
    if options.raw:
        whole = {"date": today, "device": asdict(bench.device), "conditions": conditions}
        write_text(options.raw, json.dumps(whole | {"runs": [run.raw for run in runs]}))
    write_text(out, text_of(bench.device, readings, conditions, today))
    left_out = sorted({name for run in runs for name in run.left_out})
    result = _result(out, time.monotonic() - began, readings, [run.readings for run in runs], left_out)
    result["scattered"] = [reading.name for reading in matched if not is_steady(reading)]
    print(json.dumps(result) if options.json else _text(result))  # noqa: T201  # the command's answer
    return 0


def measured(bench: MicroBench, until: float) -> Pass:
    """Every group once; after `until`, by the monotonic clock, none is begun."""
    raw: dict[str, Any] = {}
    left_out = []
    for name, group in GROUPS.items():
        if time.monotonic() > until:
            _say(f"{name}: left out, no time")
            left_out.append(name)
            continue
        began = time.monotonic()
        raw[name] = group.measure(bench)
        _say(f"{name}: {time.monotonic() - began:.1f} s")
    return Pass(raw, constants_of(raw), left_out)


def constants_of(raw: Mapping[str, Any]) -> list[MeasuredConstant]:
    """The constants that follow from the groups' raw results."""
    return [
        constant for name, group in GROUPS.items() if name in raw for constant in group.constants(raw[name])
    ]


def text_from(whole: Mapping[str, Any]) -> str:
    """The device file once more, from the raw results of a run, as `--raw` writes them."""
    result = together([constants_of(raw) for raw in whole["runs"]])
    readings = [reading for reading in result if is_steady(reading)]
    return text_of(Device(**whole["device"]), readings, whole["conditions"], whole["date"])


def _require_options(repeat: int, seconds: float, out: Path | None, raw: Path | None) -> None:
    if not 1 <= repeat <= MOST_REPEATS:
        raise DescriptionError(f"--repeat is {repeat}; it must be 1 to {MOST_REPEATS}")
    if out is not None and out.suffix != ".toml":
        raise DescriptionError(f"--out is {shown(str(out))}; a device file's name ends in .toml")
    if raw is not None and raw.suffix != ".json":
        raise DescriptionError(f"--raw is {shown(str(raw))}; the raw results' name ends in .json")
    if seconds <= 0:
        raise DescriptionError(f"--seconds is {seconds:g}; it must be above 0, such as {SECONDS:g}")


def _require_own_clock(state: GpuState, readings: Sequence[MeasuredConstant], *, is_accepted: bool) -> None:
    """SMs that only wait reach the highest clock unless somebody locked it lower; NVML does not tell."""
    cap = capped_clock(state, readings)
    if cap and not is_accepted:
        raise DeviceError(f"{cap}: unlock it, or use --as-found for a file that holds under this cap only")


def _slug(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "device"


def _result(
    out: Path,
    seconds: float,
    readings: Sequence[MeasuredConstant],
    runs: Sequence[Sequence[MeasuredConstant]],
    left_out: Sequence[str],
) -> dict[str, Any]:
    by_name = [{reading.name: reading for reading in run} for run in runs]
    constants = [
        {
            "name": reading.name,
            "value": reading.value,
            "spread": reading.spread,
            "difference": difference([run[reading.name] for run in by_name if reading.name in run]),
        }
        for reading in readings
    ]
    return {"file": str(out), "seconds": round(seconds, 1), "constants": constants, "left_out": left_out}


def _text(result: Mapping[str, Any]) -> str:
    lines = [f"{'constant':34}{'value':>16}{'spread':>9}{'between runs':>14}"]
    for entry in result["constants"]:
        apart = entry["difference"]
        mark = "  over 5 %" if apart is not None and apart > SAME else ""
        value = f"{entry['value']:.6g}" if type(entry["value"]) in (int, float) else str(entry["value"])
        lines.append(
            f"{entry['name']:34}{value:>16}{_percent(entry['spread']):>9}{_percent(apart):>14}{mark}"
        )
    lines.append(f"{len(result['constants'])} constants in {result['file']}, {result['seconds']:g} s")
    if result["scattered"]:
        lines.append(f"not written, as repeats lie too far apart: {', '.join(result['scattered'])}")
    if result["left_out"]:
        lines.append(f"left out for want of time: {', '.join(result['left_out'])}; give more --seconds")
    return "\n".join(lines)


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.1f} %"


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)  # noqa: T201  # progress
