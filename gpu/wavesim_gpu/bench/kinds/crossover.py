"""Times the ways of registered families on the GPU at hand: one set of weights per family, all ways in turns.

Example: GPT-3's MLP at M = 640 runs under six plans; each one's outputs are compared with a float32 reference
before and after its rounds. Rows do not depend on each other, so the reference of the largest M serves all.
"""

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from wavesim.errors import WavesimError
from wavesim.model.pipeline import Pipeline
from wavesim.tuning.crossover.family import KernelFamily, mlp_of
from wavesim.tuning.crossover.gains import ComparedPlan
from wavesim.workloads.catalogue import parse_tile
from wavesim_gpu.bench.checked_candidates import CheckedCandidate, program_entry, time_and_judge
from wavesim_gpu.driver.compiler import Build
from wavesim_gpu.driver.device import query, require_cupy, versions
from wavesim_gpu.driver.functions import KernelSpec, compile_all
from wavesim_gpu.run.operands import Operands, bind
from wavesim_gpu.run.planned_kernels import wanted_kernels
from wavesim_gpu.run.references import reference
from wavesim_gpu.run.runner import CupyRunner

WAIT_LIMIT_S = 5.0
SHORT_NS, REPEATS = 100_000, 4  # runs that are shorter are repeated in one graph: events take microseconds


class FamilyMeasurer:
    """Measures families one after the other in this process."""

    def __init__(self, backend: str, rounds: int, warm_up_s: float) -> None:
        self._backend, self._rounds, self._warm_up_s = backend, rounds, warm_up_s
        self._runner = CupyRunner(limit_s=WAIT_LIMIT_S, backend=backend)

    def facts(self) -> dict[str, Any]:
        """Of the device and its software, and the commit of the kernels."""
        device = {name: value for name, value in asdict(query()).items() if name != "sources"}
        return {"device": device, "versions": versions(), "commit": self._runner.commit}

    def prepare(self, entries: Sequence[Mapping[str, Any]]) -> None:
        """Compiles what the families need, on all cores. What does not compile fails when its turn comes."""
        wanted: set[KernelSpec] = set()
        for entry in entries:
            family = self._family(entry)
            for m in {
                *entry["sizes"][:3],
                entry["sizes"][-1],
            }:  # kernels differ by the rows of tiles: 1, 2, more
                for way in _ways(entry):
                    wanted |= wanted_kernels(family.pipeline(m), way.plan, Build(), self._backend)
        try:
            compile_all(wanted)
        except WavesimError as error:
            print(f"compiling ahead: {error}", file=sys.stderr, flush=True)  # noqa: T201  # told again in its turn

    def measure(self, entry: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """Each registered size: rounds in ns by way, and which ways were wrong."""
        family = self._family(entry)
        largest = self._runner.operands(family.pipeline(max(entry["sizes"])), seed=len(entry["sizes"]))
        expected = reference(largest)
        for m in entry["sizes"]:
            try:
                yield self._size(family.pipeline(m), _ways(entry), largest, expected, m)
            except WavesimError as error:
                yield {"m": m, "failed": f"{type(error).__name__}: {error}"[:300], "rounds_ns": {}}
        require_cupy().get_default_memory_pool().free_all_blocks()

    def _size(
        self,
        pipeline: Pipeline,
        ways: Sequence[ComparedPlan],
        largest: Operands,
        expected: Mapping[str, Any],
        m: int,
    ) -> dict[str, Any]:
        rows = {name: array[:m] for name, array in expected.items()}
        repeats = REPEATS if _is_short(pipeline) else 1
        entries = {way.word: self._entry(pipeline, way, largest, rows, m, repeats) for way in ways}
        found, verdicts, sampler = time_and_judge(entries, self._rounds, self._warm_up_s)
        good = [word for word, verdict in verdicts.items() if verdict.is_good]
        reading = sampler.reading if sampler else None
        return {
            "m": m,
            "repeats": repeats,
            "rounds_ns": {word: found[word].times_ns for word in good},
            "wrong": [word for word in verdicts if word not in good],
            "power_w": getattr(reading, "power_w", None),
        }

    def _entry(
        self,
        pipeline: Pipeline,
        way: ComparedPlan,
        largest: Operands,
        expected: Mapping[str, Any],
        m: int,
        repeats: int,
    ) -> CheckedCandidate:
        """The way over outputs of its own."""
        first = pipeline.stages[0].name
        operands = bind(pipeline, {first: largest.a[first][:m]}, largest.b)
        program = self._runner.program(operands, way.plan)
        return program_entry(self._runner, program, self._runner.contender(program, repeats), expected)

    def _family(self, entry: Mapping[str, Any]) -> KernelFamily:
        return mlp_of(entry["model"], entry["tp"], parse_tile(entry["tile"]), self._backend)


def _ways(entry: Mapping[str, Any]) -> list[ComparedPlan]:
    """Those that were predicted."""
    return [ComparedPlan(word, entry["order"]) for word in entry["gains"][-1]["points"]]


def _is_short(pipeline: Pipeline) -> bool:
    """Whether a run takes about as long as what starts and stops its clock, at half of an H200's rate."""
    flops = sum(stage.gemm.flops for stage in pipeline.stages)
    return flops / 4e14 * 1e9 < SHORT_NS
