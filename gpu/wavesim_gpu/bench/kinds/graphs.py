"""`python -m wavesim_gpu.bench.kinds.graphs --out FILE`: layers of models, ours and PyTorch's.

Example: Llama-3-8B's layer at 1,024 tokens by our kernels under stream sync, dependent launch and semaphores,
beside cuBLASLt, cuDNN's attention and torch's norms. All results are compared with an fp32 reference on
poisoned outputs; then all run as CUDA graphs in turns for a few rounds, and the fastest of each, torch too,
in turns for those reported. Runs in a graph take several sets of weights where one would stay in the L2.
"""

import json
import math
import sys
import time
from argparse import Namespace
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import median, quantiles
from typing import Any

from wavesim.errors import DescriptionError, DeviceError, WavesimError
from wavesim.safe_io.escaping import lines
from wavesim.safe_io.options import OneLineParser, number
from wavesim.safe_io.program import run_program
from wavesim.safe_io.writing import write_text
from wavesim_gpu.bench.kinds.layer_cases import (
    GEMM_BACKEND,
    GraphCandidate,
    MeasuredCase,
    cases_named,
    has_few_rows,
    weight_bytes,
)
from wavesim_gpu.bench.libraries.torch_chain import require_torch
from wavesim_gpu.bench.libraries.torch_layer import graph_of_layers
from wavesim_gpu.driver.compiler import Build
from wavesim_gpu.driver.device import query, require_cupy, versions
from wavesim_gpu.driver.functions import compile_all
from wavesim_gpu.run.operands import Operands
from wavesim_gpu.run.planned_kernels import wanted_kernels
from wavesim_gpu.run.program import Program
from wavesim_gpu.run.references import is_right, reference, relative_errors
from wavesim_gpu.run.runner import CupyRunner, require_safe
from wavesim_gpu.run.timing import Contender, interleaved

SECONDS, TRIAL_ROUNDS, ROUNDS = 170.0, 4, 20
WARM_UP_S = 0.05
BATCH_NS, MOST_RUNS, MOST_SETS, ALL_SETS_BYTES = 400_000, 32, 8, 240_000_000
FLOPS_PER_NS, BYTES_PER_NS = 600_000, 4_000  # about what the GPU sustains, for the length of a batch only
LONGEST_MESSAGE = 300
CLOSELY = "under dependent launch a run's first kernel is launched so too, behind the run before"


@dataclass
class GraphTimes:
    """A contender of a case: what is written of it, how it is launched, and the programs that it launches."""

    entry: dict[str, Any]
    contender: Contender
    programs: Sequence[Program] = ()


def measure_cases(cases: Sequence[MeasuredCase], options: Namespace) -> dict[str, Any]:
    """Measures cases under the command's options, and writes the file after each."""
    began, torch, seconds = time.monotonic(), require_torch(), options.seconds
    runner = CupyRunner(backend=GEMM_BACKEND, commit=options.commit or None, follows_closely=options.closely)
    result: dict[str, Any] = {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "device": {name: value for name, value in asdict(query()).items() if name != "sources"},
        "versions": {**versions(), "torch": torch.__version__},
        "commit": runner.commit,
        "rounds": ROUNDS,
        "serialises_bias": False,
        "follows_closely": options.closely,
        "cases": [],
    }
    tried: dict[tuple[str, str], list[GraphCandidate]] = {}
    for case in cases:
        if time.monotonic() - began > seconds:
            _say(f"{seconds:g} s are over; left out from {case.kind} {case.name} on")
            break
        if (case.kind, case.name) not in tried:  # all of a kind at once, to compile on every core
            alike = [one for one in cases if one.kind == case.kind]
            found_of_kind = {(one.kind, one.name): _possible(runner, one) for one in alike}
            _compile(found_of_kind.values())
            tried |= found_of_kind
            _say(f"{time.monotonic() - began:6.1f} s  compiled all of kind {case.kind}")
        found = _measured(torch, runner, case, tried[case.kind, case.name])
        result["cases"].append(found)
        write_text(options.out, json.dumps(result, indent=1) + "\n")
        _say(f"{time.monotonic() - began:6.1f} s  {_line(found)}")
    return result


def _possible(runner: CupyRunner, case: MeasuredCase) -> list[GraphCandidate]:
    """The candidates that the kernels run, and that cannot deadlock."""
    found = []
    for one in case.candidates(query()):
        try:
            if not runner.refusal(one.pipeline, one.plan):
                require_safe(one.pipeline, one.plan, query(), GEMM_BACKEND)
                found.append(one)
        except DescriptionError as error:
            _say(f"{case.name}, {one.label}: {str(error)[:LONGEST_MESSAGE]}")
    return found


def _compile(tried: Iterable[Sequence[GraphCandidate]]) -> None:
    compile_all(
        wanted
        for candidates in tried
        for one in candidates
        for wanted in wanted_kernels(one.pipeline, one.plan, Build(), GEMM_BACKEND)
    )


def _measured(
    torch: Any, runner: CupyRunner, case: MeasuredCase, candidates: Sequence[GraphCandidate]
) -> dict[str, Any]:
    """A case's entry: all candidates of a few rounds, and the finalists' rounds."""
    entry: dict[str, Any] = {**asdict(case), "name": case.name, "resets_tickets": True}
    try:
        contenders = _contenders(torch, runner, case, candidates)
        times = interleaved([one.contender for one in contenders], TRIAL_ROUNDS, WARM_UP_S)
        for one, found in zip(contenders, times, strict=True):
            one.entry["trial_ns"] = round(median(found.times_ns))
        entry["tried"] = [dict(one.entry) for one in contenders]
        finalists = _finalists(contenders)
        times = interleaved([one.contender for one in finalists], ROUNDS, WARM_UP_S)
        for one, found in zip(finalists, times, strict=True):
            rounds = one.entry["rounds_ns"] = found.times_ns
            one.entry["median_ns"] = round(median(rounds))
            one.entry["quartiles_ns"] = [round(value) for value in quantiles(rounds, n=4)[::2]]
            for program in one.programs:
                program.synchronize()
        entry["finalists"] = [one.entry for one in finalists]
    except (WavesimError, RuntimeError) as error:
        entry["failed"] = str(error)[:LONGEST_MESSAGE]
    torch.cuda.empty_cache()
    require_cupy().get_default_memory_pool().free_all_blocks()
    return entry


def _contenders(
    torch: Any, runner: CupyRunner, case: MeasuredCase, candidates: Sequence[GraphCandidate]
) -> list[GraphTimes]:
    """All with right results; torch's on the first candidate's inputs and weights."""
    found: list[GraphTimes] = []
    groups: dict[tuple[str, bool], list[GraphCandidate]] = {}
    for one in candidates:
        groups.setdefault(one.group, []).append(one)
    for group in groups.values():
        sets = _operand_sets(runner, group[0])
        expected = reference(sets[0], GEMM_BACKEND)
        if not found:
            found.append(_torch_contender(torch, case, sets, expected))
        found += [_our_contender(runner, one, sets, expected) for one in group]
    wrong = [one.entry for one in found if not one.entry["is_right"]]
    for entry in wrong:
        _say(f"wrong: {entry}")
    return [one for one in found if one.entry["is_right"]]


def _operand_sets(runner: CupyRunner, one: GraphCandidate) -> list[Operands]:
    """As many as fill the L2 four times over, of what reads weights for few rows; else one."""
    read = weight_bytes(one.pipeline)
    count = min(MOST_SETS, math.ceil(ALL_SETS_BYTES / read)) if read and has_few_rows(one.pipeline) else 1
    return [runner.operands(one.pipeline, seed) for seed in range(count)]


def _repeats(operands: Operands, sets: int) -> int:
    """Runs in a graph: each set equally often, for about `BATCH_NS` or more."""
    pipeline = operands.pipeline
    flops = sum(stage.kernel.flops_per_block * stage.grid.size for stage in pipeline.stages)
    guess_ns = max(flops / FLOPS_PER_NS, weight_bytes(pipeline) / BYTES_PER_NS, 1.0)
    return sets * max(1, min(math.ceil(BATCH_NS / guess_ns / sets), MOST_RUNS // sets))


def _our_contender(
    runner: CupyRunner, one: GraphCandidate, sets: Sequence[Operands], expected: dict[str, Any]
) -> GraphTimes:
    # Its last block puts the counters back: a memset between two runs would keep them apart.
    resets = one.plan.sync.has_semaphores and not one.plan.launch.is_multi_stream
    programs = [runner.program(operands, one.plan, is_self_resetting=resets or None) for operands in sets]
    verdict = runner.verdict(programs[0], programs[0].launcher(), expected)
    repeats = _repeats(sets[0], len(sets))
    launch = programs[0].launcher(repeats) if len(sets) == 1 else graph_of_programs(programs, repeats)
    entry = {
        "class": one.plan_class,
        "label": one.label,
        "tiles": one.tiles,
        "is_right": verdict.is_good,
        "errors": dict(verdict.errors),
    }
    return GraphTimes(entry, Contender(launch, programs[0].streams[0], repeats), programs)


def graph_of_programs(programs: Sequence[Program], repeats: int) -> Callable[[], None]:
    """What replays so many runs, of the programs in turn, as one graph: plans of one stream only."""
    stream = programs[0].streams[0]
    assert all(len(program.streams) == 1 for program in programs)
    with stream:
        stream.begin_capture()
        for index in range(repeats):
            program = programs[index % len(programs)]
            program.sync.reset(stream)
            for launch in program.launches:
                launch.enqueue((stream,))
        graph = stream.end_capture()
    return lambda: graph.launch(stream)


def _torch_contender(
    torch: Any, case: MeasuredCase, sets: Sequence[Operands], expected: dict[str, Any]
) -> GraphTimes:
    with torch.no_grad():
        layers, label = case.by_torch(sets)
        made = layers[0].run()
        torch.cuda.synchronize()
        got = _as_float32(sets[0], made, expected)
        repeats = _repeats(sets[0], len(sets))
        launch, stream = graph_of_layers(layers, repeats)
    errors = relative_errors(sets[0], {name: expected[name] for name in got}, got)
    entry = {
        "class": "torch",
        "label": label,
        "is_right": is_right(sets[0], {**dict.fromkeys(expected, 0.0), **errors}),
        "errors": errors,
    }
    return GraphTimes(entry, Contender(launch, stream, repeats))


def _as_float32(operands: Operands, made: dict[str, Any], expected: dict[str, Any]) -> dict[str, Any]:
    """Torch's result of the last stage, by the name that the reference has it under."""
    cupy, last = require_cupy(), operands.pipeline.stages[-1].name
    name = next(one for one in expected if one.split(".")[0] == last)
    buffer = operands.pipeline.stages[-1].view("c").buffer
    return {name: cupy.from_dlpack(made[buffer].float().contiguous())}


def _finalists(contenders: Sequence[GraphTimes]) -> list[GraphTimes]:
    """The fastest of each class, and in the tiles of the fastest with semaphores the fastest stream sync."""
    found: list[GraphTimes] = []
    for name in dict.fromkeys(one.entry["class"] for one in contenders):
        alike = [one for one in contenders if one.entry["class"] == name]
        found.append(min(alike, key=lambda one: one.entry["trial_ns"]))
    ours = next((one for one in found if one.entry["class"] == "semaphores"), None)
    if ours is not None:
        alike = [
            one
            for one in contenders
            if one.entry["class"] == "stream" and one.entry["tiles"] == ours.entry["tiles"]
        ]
        same = min(alike, key=lambda one: one.entry["trial_ns"], default=None)
        if same is not None and same not in found:
            found.append(
                GraphTimes({**same.entry, "class": "stream, same tiles"}, same.contender, same.programs)
            )
    return found


def _line(entry: dict[str, Any]) -> str:
    if "failed" in entry:
        return f"{entry['name']}: failed: {entry['failed']}"
    times = ", ".join(f"{one['class']} {one['median_ns'] / 1000:.1f}" for one in entry["finalists"])
    return f"{entry['kind']} {entry['name']}: {times} us"


def _say(text: str) -> None:
    print(text, flush=True)  # noqa: T201  # progress


def graphs_command(
    name: str, words: list[str] | None, description: str, named: Callable[[str], Sequence[MeasuredCase]]
) -> int:
    """Measures the cases that `named` finds; status 2 for bad input, no GPU or no torch."""
    parser = OneLineParser(prog=f"python -m wavesim_gpu.bench.{name}", description=description)
    parser.add_argument("--out", type=Path, required=True, help="the results' file (JSON)")
    parser.add_argument(
        "--seconds", type=number, default=SECONDS, help=f"after these no case is begun ({SECONDS:g})"
    )
    parser.add_argument("--only", default="", help="cases of this kind and name, or of a part of them")
    parser.add_argument("--closely", action="store_true", help=CLOSELY)
    parser.add_argument("--commit", default="", help="commit of the kernels, where git cannot tell")
    try:
        options = parser.parse_args(sys.argv[1:] if words is None else words)
        result = measure_cases(named(options.only), options)
    except (DescriptionError, DeviceError) as error:
        print(lines(str(error)), file=sys.stderr)  # noqa: T201
        return 2
    _say(f"{len(result['cases'])} cases in {options.out}")
    return 0


def main(words: list[str] | None = None) -> int:
    """Measures layers."""
    return graphs_command("layer_graphs", words, __doc__, cases_named)


if __name__ == "__main__":
    sys.exit(run_program("layer_graphs", main))
