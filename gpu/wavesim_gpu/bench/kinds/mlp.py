"""`python -m wavesim_gpu layers`: `mlp` beside the best of torch's forms on 40 MLPs written down beforehand.

Example: before anything is timed the simulator's choice for every shape is written to the file, with its
SHA-256. Then, shape by shape, all contenders run in turns in one process as CUDA graphs; the file is written
after each, so that an interrupted or damaged run keeps what is done, and `--resume` goes on from it.
"""

import hashlib
import json
import math
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from wavesim.bench.layer_results import load_layers
from wavesim.errors import DescriptionError
from wavesim.safe_io.bounds import shown
from wavesim.safe_io.documents import read_json
from wavesim.safe_io.writing import write_text
from wavesim_gpu.bench.kinds.mlp_contenders import (
    GraphOfRuns,
    Run,
    captured,
    host_ns,
    judged,
    library_run,
    mlp_run,
    our_best,
    ours_run,
    run_count,
    way_label,
)
from wavesim_gpu.bench.kinds.mlp_first_calls import first_call, in_second_process
from wavesim_gpu.bench.kinds.mlp_operands import LayerOperands, random_layer, reference, set_count
from wavesim_gpu.bench.kinds.mlp_shapes import LayerShape, all_shapes, shapes_hash
from wavesim_gpu.bench.libraries.torch_chain import require_torch
from wavesim_gpu.bench.libraries.torch_forms import torch_form
from wavesim_gpu.driver import cubin_cache
from wavesim_gpu.driver.current_gpu import require_gpu
from wavesim_gpu.driver.device import query, require_cupy, versions
from wavesim_gpu.driver.kernel_sources import ROOT, source_hash
from wavesim_gpu.run.runner import current_commit
from wavesim_gpu.run.timing import Contender, interleaved

SECONDS, ROUNDS = 240.0, 20
KERNELS = "hopper"
LONGEST_MESSAGE = 300
MOST_BYTES = 16 << 20  # of a file that is resumed


@dataclass
class LayerCase:
    """One contender of a shape: what is written of it, and its graph while it is timed."""

    case: dict[str, Any]
    graph: GraphOfRuns | None = None


def run_layers(
    out: Path,
    *,
    only: str = "",
    seconds: float = SECONDS,
    is_resumed: bool = False,
    are_packed: bool = False,
    commit: str | None = None,
) -> Path:
    """Measures the shapes whose name contains `only`, none begun after `seconds`; returns the file's path.

    With `is_resumed` those that the file has already are left out. With `are_packed` the MLPs are those with
    a gate, packed with the values in one matrix, for torch and for `mlp`, and only these two are compared.
    """
    began = time.monotonic()
    shapes = [shape for shape in all_shapes(are_packed=are_packed) if only in shape.name]
    if not shapes:
        raise DescriptionError(
            f"--only is {shown(only)}; it is in no shape's name, such as {all_shapes()[0].name!r}"
        )
    if is_resumed:
        load_layers(out)  # before anything that needs a GPU: it names what is damaged
    torch = require_torch()
    require_gpu()
    result = _resumed(out) if is_resumed else _begun(torch, commit, are_packed)
    if result.get("are_packed", False) != are_packed:
        raise DescriptionError(
            f"{out}: its weights are {'not ' if are_packed else ''}packed; name another file"
        )
    done = {(case["workload"], case["tokens"]) for case in result["cases"]}
    left = [shape for shape in shapes if (shape.model, shape.tokens) not in done]
    with tempfile.TemporaryDirectory(prefix="wavesim-layers-") as cache, torch.no_grad():
        cubin_cache.use(Path(cache))
        finished = []
        for shape in left:
            if time.monotonic() - began > seconds:
                _say(f"{seconds:g} s are over; {len(left) - len(finished)} shapes are left for --resume")
                break
            _measure(torch, shape, result, out)
            finished.append(shape.name)
        result["first_calls_of_second_process"] += (
            in_second_process(Path(cache), finished) if finished and not are_packed else []
        )
        _write(out, result)
    return out


def _begun(torch: Any, commit: str | None, are_packed: bool) -> dict[str, Any]:
    now = datetime.now(UTC).isoformat(timespec="seconds")
    choices = [_predicted(shape) for shape in all_shapes(are_packed=are_packed)]
    _say(f"{len(choices)} choices registered before anything is timed, SHA-256 {registered_hash(choices)}")
    return {
        "date": now,
        "device": {name: value for name, value in asdict(query()).items() if name != "sources"},
        "versions": {**versions(), "torch": torch.__version__},
        "commit": commit or current_commit(),
        "kernels": KERNELS,
        "kernel_sources": _kernels_hash(),
        "is_judged_after": True,
        "are_packed": are_packed,
        "shapes_sha256": shapes_hash(),
        "registered": {"date": now, "sha256": registered_hash(choices), "choices": choices},
        "cases": [],
        "first_calls_of_second_process": [],
    }


def _kernels_hash() -> str:
    """Over all kernels: which of them `mlp` launches is for it to choose."""
    return source_hash(*sorted((ROOT / "kernels").rglob("*.cu")))


def registered_hash(choices: Sequence[dict[str, Any]]) -> str:
    """SHA-256 of what was predicted, as JSON with sorted keys."""
    return hashlib.sha256(json.dumps(choices, sort_keys=True).encode()).hexdigest()


def _predicted(shape: LayerShape) -> dict[str, Any]:
    """The simulator's choice for a shape, or why there is none."""
    try:
        from wavesim_gpu.layers.choose import choose  # noqa: PLC0415  # a failed import is written down too

        began = time.perf_counter()
        choice = choose(shape.mlp, query())
        took_ms = round(1e3 * (time.perf_counter() - began), 3)
        best = our_best(shape)
    except Exception as error:  # noqa: BLE001  # as above
        return {"name": shape.name, "failed": _message(error)}
    times = {"predicted_ns": choice.predicted_ns, "library_ns": choice.library_ns, "choosing_ms": took_ms}
    ours = {"ours_label": str(best[1]), "ours_ns": best[0]} if best else {}
    return {"name": shape.name, "label": choice.label, **times, **ours}


def _resumed(out: Path) -> dict[str, Any]:
    result = read_json(out, MOST_BYTES)
    for what, was, now in (
        ("shapes", result["shapes_sha256"], shapes_hash()),
        ("kernels", result["kernel_sources"], _kernels_hash()),
        (
            "registered choices",
            result["registered"]["sha256"],
            registered_hash(result["registered"]["choices"]),
        ),
        ("device", result["device"]["name"], query().name),
    ):
        if was != now:
            raise DescriptionError(f"{out}: its {what} were {was}, now {now}; measure into a new file")
    return dict(result)


def _measure(torch: Any, shape: LayerShape, result: dict[str, Any], out: Path) -> None:
    """Adds a shape's cases to the file. What breaks the GPU's context is written down, and raised."""
    began = time.monotonic()
    _write(out, result)  # with the predictions, before anything is timed
    try:
        result["cases"] += shape_cases(torch, shape)
        torch.cuda.synchronize()
    except Exception as error:
        result["cases"].append({**_tags(shape), "name": "all", "failed": _message(error)})
        _write(out, result)
        raise
    _write(out, result)
    torch.cuda.empty_cache()
    _say(f"{shape.name}: {time.monotonic() - began:.1f} s")


def shape_cases(torch: Any, shape: LayerShape) -> list[dict[str, Any]]:
    """All contenders on one shape, timed in turns."""
    torch.compiler.reset()  # what was compiled for other shapes would count against this one's limit
    stream = torch.cuda.Stream()
    sets = [random_layer(torch, shape, seed) for seed in range(set_count(shape))]
    count = run_count(shape)
    expected = [reference(torch, shape, sets[0]), reference(torch, shape, sets[(count - 1) % len(sets)])]
    torch.cuda.synchronize()  # they were made on another stream than the one that runs
    prepare = partial(_prepared, torch, shape, stream, sets)
    outcome = [prepare("mlp", lambda: mlp_run(shape), is_first=True)]
    outcome += [prepare(f"torch {form}", partial(torch_form, torch, shape, form)) for form in shape.forms]
    if shape.mlp.gate != "packed":
        outcome.append(prepare("library", lambda: library_run(torch, shape)))
        outcome.append(prepare("our kernels", lambda: ours_run(torch, shape)))
        outcome.append(prepare("stream sync", lambda: ours_run(torch, shape, is_stream_sync=True)))
    outcome.append(prepare("mlp tuned", lambda: _tuned_run(shape, sets[0])))
    _join_same(shape, sets[0], outcome)
    running = [entry for entry in outcome if entry.graph is not None]
    for entry in running:
        entry.case["verdict"] = judged(torch, shape, entry.graph, expected)
    _time(torch, running, count)
    for entry in running:
        again = judged(torch, shape, entry.graph, expected)
        entry.case["verdict"] = again if not again["is_good"] else entry.case["verdict"]
    return [entry.case for entry in outcome if entry.case.get("failed") != NOTHING]


NOTHING = "nothing to time"


def _prepared(
    torch: Any,
    shape: LayerShape,
    stream: Any,
    sets: Sequence[LayerOperands],
    name: str,
    make: Callable[[], Run | None],
    is_first: bool = False,
) -> LayerCase:
    """A contender captured, with its host time, or why it could not be."""
    case: dict[str, Any] = {**_tags(shape), "name": name, "rounds_ns": []}
    began = time.perf_counter()
    try:
        run = make()
        if run is None:
            return LayerCase({**case, "failed": NOTHING})
        if is_first:
            case["first_call"] = first_call(torch, run, sets[0])
            case["plan"] = _label(shape, sets[0])
        graph = captured(torch, stream, run, sets, run_count(shape))
        case["prepared_s"] = round(time.perf_counter() - began, 2)
        calls_ns = host_ns(torch, shape, stream, run, sets[0])
        case |= {"host_ns": round(median(calls_ns)), "host_calls": len(calls_ns)}
    except Exception as error:  # noqa: BLE001  # recorded, and the rest goes on
        _say(f"{shape.name}, {name}: {_message(error)}")
        return LayerCase({**case, "failed": _message(error)})
    return LayerCase(case, graph)


def _tuned_run(shape: LayerShape, operands: LayerOperands) -> Run:
    mlp_run(shape, tune=True)(operands)
    return mlp_run(shape)


def _join_same(shape: LayerShape, operands: LayerOperands, outcome: Sequence[LayerCase]) -> None:
    """What takes the same way as another is not timed twice: noise would make two speeds of one."""
    by_name = {entry.case["name"]: entry for entry in outcome if entry.graph is not None}
    if "mlp tuned" in by_name:
        by_name["mlp tuned"].case["plan"] = _label(shape, operands)
    if "our kernels" in by_name:
        by_name["our kernels"].case["plan"] = str(our_best(shape)[1])
    first = by_name.get("mlp")
    for name in ("our kernels", "mlp tuned"):
        other = by_name.get(name)
        if first is not None and other is not None and first.case["plan"] == other.case["plan"] is not None:
            other.graph, other.case["same_as"] = None, "mlp"


def _label(shape: LayerShape, operands: LayerOperands) -> str | None:
    try:
        return way_label(shape, operands)
    except Exception as error:  # noqa: BLE001  # only a label
        _say(f"{shape.name}: {_message(error)}")
        return None


def _time(torch: Any, running: Sequence[LayerCase], count: int) -> None:
    """Rounds of all of them in turns, with the SM clock."""
    if not running:
        return
    cupy = require_cupy()
    stream = cupy.cuda.ExternalStream(running[0].graph.stream.cuda_stream)
    outcome = interleaved(
        [Contender(partial(entry.graph.launch, torch), stream, count) for entry in running], ROUNDS
    )
    for entry, rounds in zip(running, outcome, strict=True):
        has_clocks = all(math.isfinite(clock) for clock in rounds.clocks_ghz)
        entry.case |= {"rounds_ns": rounds.times_ns, "clocks_ghz": rounds.clocks_ghz if has_clocks else []}
        entry.case["repeats"] = count


def _tags(shape: LayerShape) -> dict[str, Any]:
    return {"workload": shape.model, "tokens": shape.tokens}


def _message(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:LONGEST_MESSAGE]


def _write(out: Path, result: dict[str, Any]) -> None:
    write_text(out, json.dumps(result, separators=(",", ":"), allow_nan=False) + "\n")


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)  # noqa: T201  # progress
