"""Stacks of Hugging Face layers with their MLPs swapped and without, under torch and under torch.compile.

Example: `python -m wavesim_gpu.evaluation.model_stack --out gpu/results/stack/DATE.json` on a GPU. What the
simulator expects of each MLP is written to a file of its own, and its hash is kept, before anything is timed.
"""

import argparse
import hashlib
import json
import platform
import sys
import time
from dataclasses import asdict, is_dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from wavesim.errors import DescriptionError, DeviceError, WavesimError
from wavesim.model.device import Device, load
from wavesim.safe_io.bounds import whole
from wavesim.safe_io.escaping import lines, one_line
from wavesim.safe_io.options import OneLineParser, integer, number
from wavesim.safe_io.program import run_program
from wavesim.safe_io.writing import write_text
from wavesim_gpu.driver.device import query
from wavesim_gpu.evaluation.stack_models import (
    PHASES,
    STACKS,
    TINY,
    TINY_PHASES,
    Phase,
    StackShape,
    make_model,
    mlp_shape,
)
from wavesim_gpu.evaluation.stack_programs import measure_phase, swapped_models
from wavesim_gpu.runner import current_commit
from wavesim_gpu.trial.package_versions import installed_versions

SECONDS = 200.0
ROUNDS, MOST_ROUNDS = 20, 1000
COMPILE_S = 25.0  # what one shape's two compilations take: without as much left they are not begun


def predictions(
    stacks: tuple[StackShape, ...], phases: tuple[Phase, ...], device: Device
) -> list[dict[str, Any]]:
    """What the simulator expects of every stack's MLP at every step, or why it says nothing."""
    return [
        {
            "model": stack.name,
            "phase": phase.name,
            "rows": phase.rows,
            "mlps": stack.layers,
            **_predicted(stack, phase, device),
        }
        for stack in stacks
        for phase in phases
    ]


def _predicted(stack: StackShape, phase: Phase, device: Device) -> dict[str, Any]:
    shape = mlp_shape(stack, phase.rows)
    try:
        from wavesim_gpu.layers.choose import choose  # noqa: PLC0415  # recorded as missing where it is

        found = choose(shape, device)
    except (ImportError, WavesimError) as error:
        return {"not_predicted": one_line(str(error))}
    fields = asdict(found) if is_dataclass(found) else vars(found)
    return {"choice": {name: value for name, value in fields.items() if _is_plain(value)}}


def _is_plain(value: object) -> bool:
    return isinstance(value, str | int | float | list | tuple | None)


def registered(found: list[dict[str, Any]], path: Path) -> str:
    """Writes predictions beside the results-to-be. Returns the SHA-256 of what was written."""
    text = json.dumps(found, sort_keys=True) + "\n"
    write_text(path, text)
    return hashlib.sha256(text.encode()).hexdigest()


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Measures all steps of all stacks and writes the file after each; returns what it holds."""
    began = time.monotonic()
    is_tiny, device = options.tiny, "cpu" if options.cpu else "cuda"
    stacks, phases = (TINY, TINY_PHASES) if is_tiny else (_stacks(options.only), PHASES)
    described = load("h200") if options.cpu else query()
    beside = options.out.with_name(f"{options.out.stem}.predictions.json")
    expected = predictions(stacks, phases, described)
    result: dict[str, Any] = {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "device": _place(options.cpu, described),
        "versions": installed_versions(),
        "commit": options.commit or current_commit(),
        "rounds": options.rounds,
        "is_tuned": options.tune,
        "predictions_sha256": registered(expected, beside),
        "predictions": expected,
        "cases": [],
    }
    for stack in stacks:
        models = swapped_models(
            make_model(stack, device), tuple(phase.rows for phase in phases), tune=options.tune
        )
        for phase in phases:
            left_s = options.seconds - (time.monotonic() - began)
            if left_s <= 0:
                return result
            with_compile = not options.no_compile and left_s > COMPILE_S
            found = measure_phase(
                models, stack, phase, device=device, rounds=options.rounds, with_compile=with_compile
            )
            said = {"failure": models.failure} if models.failure else {"report": models.report}
            result["cases"].append(
                {
                    "model": stack.name,
                    "phase": phase.name,
                    "batch": phase.batch,
                    "tokens": phase.tokens,
                    "rows": phase.rows,
                    "programs": found,
                    **said,
                }
            )
            write_text(options.out, json.dumps(result) + "\n")
            took_s = time.monotonic() - began
            print(f"{stack.name}, {phase.label}: {took_s:.0f} s", file=sys.stderr, flush=True)  # noqa: T201  # progress
    return result


def _stacks(only: str | None) -> tuple[StackShape, ...]:
    found = tuple(stack for stack in STACKS if (only or "") in stack.name)
    if not found:
        known = ", ".join(stack.name for stack in STACKS)
        raise DescriptionError(f"--only is {only!r}; it is in none of {known}")
    return found


def _place(is_cpu: bool, device: Device) -> str:
    return f"CPU ({platform.machine()})" if is_cpu else device.name


def _options(words: list[str]) -> argparse.Namespace:
    parser = OneLineParser(prog="python -m wavesim_gpu.evaluation.model_stack", description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="the results' file (JSON)")
    parser.add_argument("--rounds", type=integer, default=ROUNDS, help=f"rounds of all programs ({ROUNDS})")
    parser.add_argument(
        "--seconds", type=number, default=SECONDS, help=f"after these no step is begun ({SECONDS:g})"
    )
    parser.add_argument("--only", help="models whose name contains this")
    parser.add_argument("--no-compile", action="store_true", help="without torch.compile")
    parser.add_argument("--tune", action="store_true", help="tune the MLPs first, which takes minutes")
    parser.add_argument("--tiny", action="store_true", help="a tiny model at two steps, to try the command")
    parser.add_argument("--cpu", action="store_true", help="on the CPU, to try the command")
    parser.add_argument("--commit", help="commit of the kernels, where git cannot tell")
    options = parser.parse_args(words)
    whole("--rounds", options.rounds, 1, MOST_ROUNDS)
    return options


def main(words: list[str] | None = None) -> int:
    """Measures and writes the file; status 2 for bad input, no GPU or no torch."""
    try:
        options = _options(sys.argv[1:] if words is None else words)
        result = measure(options)
    except ModuleNotFoundError as error:
        if error.name not in ("torch", "transformers"):
            raise
        print(f"{error.name} is not installed; pip install torch transformers", file=sys.stderr)  # noqa: T201
        return 2
    except (DescriptionError, DeviceError) as error:
        print(lines(str(error)), file=sys.stderr)  # noqa: T201
        return 2
    print(f"{len(result['cases'])} steps in {options.out}")  # noqa: T201  # what it is for
    return 0


if __name__ == "__main__":
    sys.exit(run_program("model_stack", main))
