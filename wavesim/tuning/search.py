"""tune(): policies x orders x options, and tile sizes and split-K where given, searched in the simulator.

Example: 533 plans of the GPT-3 MLP at M = 2048 in a few seconds; out comes a ranked table and
the plan to run, with its predicted gain over the best stream-sync plan and how far such predictions have
been off. If nothing beats stream sync, stream sync is the first row. What is to be run is the fastest plan
whose safety CUDA promises; faster ones that rest on more are told, with what they rest on.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import closing, nullcontext
from dataclasses import replace
from pathlib import Path

from wavesim.costs.cost_model import CostModel
from wavesim.model.device import Device
from wavesim.model.pipeline import Pipeline
from wavesim.plan.order import RowMajor
from wavesim.plan.plan import Plan, StreamSync
from wavesim.predict.forecast import HELPS_POINTS, Forecast
from wavesim.predict.known_costs import KnownCosts
from wavesim.safe_io.annotated import path_of, require_types, tuple_of
from wavesim.safety.deadlock import safety_of
from wavesim.safety.verdict import BASES, Basis
from wavesim.tuning.candidates import (
    Candidate,
    Fingerprints,
    boundary_candidates,
    given_candidate,
    semaphore_candidates,
)
from wavesim.tuning.ranking import TunedPlan, Tuning, best_of
from wavesim.tuning.results_file import ResultsFile
from wavesim.tuning.sweep import Progress, Question, run_sweep
from wavesim.tuning.tuning_costs import CostBook, megabytes_per_wave
from wavesim.workloads.layer_backends import is_layer, with_chained_products

SETTLED_ROWS = 16  # of a ranking, simulated with their own DRAM traffic and clock
STREAMS = 4  # of the orders of stream sync


def tune(
    pipeline: Pipeline,
    device: Device,
    costs: CostModel | KnownCosts | None = None,
    *,
    variants: Mapping[str, Pipeline] | None = None,
    plans: Sequence[Plan] | None = None,
    executor: Executor | None = None,
    progress: Progress | None = None,
    results: str | Path | None = None,
) -> Tuning:
    """Simulates all plans worth trying and ranks them.

    `variants` are the same computation with other tile sizes or split-K, by name; `costs` hold for
    all of them. Of a layer whose stages name no kernels, products for chains by dependent launch are tried
    too. `plans` replaces the generated ones. With `results` the sweep goes on where that
    file stops; after Ctrl-C the ranking is of what is finished, where anything is. `executor` is any of
    `concurrent.futures`, or Dask's `client.get_executor()`; what a worker had that ends is done again.

    Raises `DescriptionError` for plans that don't fit, `RecordingError` for a results file that cannot
    be read or written.
    """
    began = time.monotonic()
    require_types("tune", pipeline=(pipeline, Pipeline), device=(device, Device))
    require_types("tune", costs=(costs, CostModel | KnownCosts | None), variants=(variants, Mapping | None))
    require_types("tune", executor=(executor, Executor | None), progress=(progress, Callable | None))
    require_types("tune", **{f"variants[{name!r}]": (v, Pipeline) for name, v in (variants or {}).items()})
    given = None if plans is None else tuple_of("tune", "plans", plans, Plan)
    path = None if results is None else path_of("tune", "results", results)
    tried = {"": pipeline, **(variants or {})}
    if given is None and costs is None:
        tried |= chained_variants(tried)
    search = Search(tried, device, costs, given)
    with closing(ResultsFile(path)) if path is not None else nullcontext() as file:
        is_complete = run_and_keep(search, search.stream_questions(), None, None, file)
        if is_complete:
            is_complete = run_and_keep(search, search.other_questions(), executor, progress, file)
    if not search.predicted_ns:
        raise KeyboardInterrupt  # before the first answer there is no ranking to return
    ranked = search.ranked()
    return Tuning(
        workload=pipeline.name,
        device=device.name,
        plans=ranked,
        forecasts=search.forecasts(ranked),
        left_out=search.left_out,
        seconds=time.monotonic() - began,
        is_complete=is_complete,
        lost_workers=tuple(search.lost_workers),
    )


def chained_variants(variants: Mapping[str, Pipeline]) -> dict[str, Pipeline]:
    """Layers with the products for chains, whose blocks leave their SMs as they end, by name."""
    return {
        f"{name} chained".strip(): with_chained_products(pipeline)
        for name, pipeline in variants.items()
        if is_layer(pipeline) and not any(stage.backend for stage in pipeline.stages)
    }


def run_and_keep(
    search: "Search",
    questions: list[Question],
    executor: Executor | None,
    progress: Progress | None,
    file: ResultsFile | None,
) -> bool:
    """Adds the answers to the search's. Returns whether all questions were answered."""
    answers = run_sweep(questions, executor, progress, file)
    search.predicted_ns |= answers.predicted_ns
    search.lost_workers += answers.lost_workers
    return answers.is_complete


class Search:
    """What is tried, what came out and what was left out, for one call of tune()."""

    def __init__(
        self,
        variants: Mapping[str, Pipeline],
        device: Device,
        costs: CostModel | KnownCosts | None,
        plans: Sequence[Plan] | None,
    ) -> None:
        self.books = {name: CostBook(pipeline, device, costs) for name, pipeline in variants.items()}
        self.left_out = {"can deadlock": 0, "same schedule as another": 0, "cannot beat stream sync": 0}
        self.predicted_ns: dict[str, int | None] = {}
        self.lost_workers: list[str] = []
        self._device = device
        self._plans = plans
        self._fingerprints = Fingerprints()
        self._candidates: dict[str, Candidate] = {}
        self._known: dict[str, KnownCosts] = {}
        self._needed: dict[tuple[str, int], float] = {}

    def stream_questions(self) -> list[Question]:
        """Stream sync in every order, or as given."""
        return [
            question
            for variant, book in self.books.items()
            for candidate in self._boundaries(book.pipeline)
            if candidate.plan.is_stream_sync
            for question in self._question(variant, candidate)
        ]

    def other_questions(self) -> list[Question]:
        """All other plans, where any may beat the best stream-sync plan found so far."""
        best_ns = min(ns for ns in self.predicted_ns.values() if ns is not None)
        questions = []
        for variant, book in self.books.items():
            candidates, unsafe = self._semaphores(book.pipeline)
            candidates += [
                candidate
                for candidate in self._boundaries(book.pipeline)
                if not candidate.plan.is_stream_sync
            ]
            self.left_out["can deadlock"] += unsafe
            if book.least_ns() >= best_ns:
                self.left_out["cannot beat stream sync"] += len(candidates)
                continue
            for candidate in candidates:
                questions += self._question(variant, candidate)
        return questions

    def ranked(self) -> tuple[TunedPlan, ...]:
        """Fastest first; of equally fast ones the simpler: see `_preference`."""
        rows = sorted(self._rows(), key=lambda row: (row.predicted_ns, *self._preference(row)))
        return tuple(replace(row, needed_points=self._needed_points(row)) for row in rows)

    def _needed_points(self, row: TunedPlan) -> float:
        """What a plan must gain to be run: as much as the fastest one of its kind, which is asked first."""
        kind = row.plan.name, id(row.pipeline)
        if row.improvement_points >= HELPS_POINTS and kind not in self._needed:
            known = self._known_of(row)
            trace = known.simulated(row.pipeline, row.plan, self._device)
            self._needed[kind] = known.forecast(trace, row.improvement_points).needed_points
        return self._needed.get(kind, HELPS_POINTS)

    def _known_of(self, row: TunedPlan) -> KnownCosts:
        book = next(book for book in self.books.values() if book.pipeline is row.pipeline)
        return book.known(row.order)

    def _rows(self) -> list[TunedPlan]:
        settled = self._settled({key: ns for key, ns in self.predicted_ns.items() if ns is not None})
        self.left_out["can deadlock"] += len(self.predicted_ns) - len(settled)
        streams = [ns for key, ns in settled.items() if self._candidates[key].plan.is_stream_sync]
        points = self.books[""].known().points
        return [
            TunedPlan(
                name=(entry := self._candidates[key]).name,
                pipeline=entry.pipeline,
                plan=entry.plan,
                order=entry.order,
                predicted_ns=ns,
                improvement_points=points(ns, min(streams)),
                semaphores=entry.semaphores,
                safety=entry.safety,
            )
            for key, ns in settled.items()
        ]

    def _settled(self, quick_ns: Mapping[str, int]) -> dict[str, int]:
        """The times of the fastest plans in full: their own DRAM traffic and clock, not stream sync's.

        The sweep leaves these out, as they take several simulations of each plan. The others keep their
        distance from stream sync.
        """
        if not any(known.as_measured for known in self._known.values()):
            return dict(quick_ns)
        streams = [key for key in quick_ns if self._candidates[key].plan.is_stream_sync]
        full_ns = {key: self._in_full(key) for key in sorted(streams, key=quick_ns.__getitem__)[:STREAMS]}
        quick_stream_ns, stream_ns = min(quick_ns[key] for key in full_ns), min(full_ns.values())
        settled = {key: round(ns * stream_ns / quick_stream_ns) for key, ns in quick_ns.items()} | full_ns
        while unsettled := [
            key for key in sorted(settled, key=settled.__getitem__)[:SETTLED_ROWS] if key not in full_ns
        ]:
            full_ns |= {key: self._in_full(key) for key in unsettled}
            settled |= full_ns
        return settled

    def _in_full(self, key: str) -> int:
        candidate = self._candidates[key]
        return self._known[key].simulated(candidate.pipeline, candidate.plan, self._device).time_ns

    def forecasts(self, ranked: Sequence[TunedPlan]) -> dict[Basis, Forecast]:
        """The improvement of the plan to run, by what its safety may rest on."""
        return {accept: self._forecast(ranked, accept) for accept in BASES}

    def _forecast(self, ranked: Sequence[TunedPlan], accept: Basis) -> Forecast:
        """Of the best plan that is not stream sync; declined where stream sync is the one to run."""
        best = best_of(ranked, accept)
        others = (row for row in ranked if not row.plan.is_stream_sync and row.safety.is_accepted(accept))
        row = next(others, best) if best.plan.is_stream_sync else best
        known = self._known_of(row)
        trace = known.simulated(row.pipeline, row.plan, self._device)
        stream = next((other.plan for other in ranked if other.plan.is_stream_sync), row.plan)
        open_facts = known.alternatives(row.pipeline, row.plan, stream, self._device)
        caveats = (row.plan.caveat,) if row.plan.caveat else ()
        forecast = known.forecast(trace, row.improvement_points, caveats, open_facts)
        return forecast if best is row else forecast.declined

    def _preference(self, row: TunedPlan) -> tuple[bool, bool, bool, int, bool, int, bool, str]:
        """Of equally fast plans: stream sync, what is scored, one order for all, little L2 traffic."""
        return (
            not row.plan.is_stream_sync,
            bool(row.plan.caveat),
            bool(row.plan.orders),
            megabytes_per_wave(row.pipeline, row.plan, self._device),
            row.plan.name not in ("stream", "row", "tile"),
            row.semaphores,
            row.plan.order != RowMajor(),
            row.name,
        )

    def _question(self, variant: str, candidate: Candidate) -> list[Question]:
        known = self.books[variant].known(candidate.order)
        costs = known.of_plan(candidate.pipeline, candidate.plan, self._device, is_settled=False)
        key = self._fingerprints.of(candidate, self._device, costs)
        if key in self._candidates:
            self.left_out["same schedule as another"] += 1
            return []
        name = f"{candidate.name} {variant}".strip()
        self._candidates[key] = replace(candidate, name=name)
        self._known[key] = known
        return [Question(key, name, candidate.pipeline, candidate.plan, self._device, costs)]

    def _boundaries(self, pipeline: Pipeline) -> list[Candidate]:
        """Plans without semaphores; of given ones stream sync in their orders too, to compare them with."""
        if self._plans is None:
            return boundary_candidates(pipeline, self._device)
        given = [plan for plan in self._plans if not plan.sync.has_semaphores]
        if not any(plan.is_stream_sync for plan in given):
            given += dict.fromkeys(StreamSync(plan.order, plan.orders) for plan in self._plans)
        return self._given(pipeline, given)

    def _semaphores(self, pipeline: Pipeline) -> tuple[list[Candidate], int]:
        if self._plans is None:
            return semaphore_candidates(pipeline, self._device)
        given = [plan for plan in self._plans if plan.sync.has_semaphores]
        safe = self._given(pipeline, given)
        return safe, len(given) - len(safe)

    def _given(self, pipeline: Pipeline, plans: Sequence[Plan]) -> list[Candidate]:
        verdicts = ((plan, safety_of(pipeline, plan, self._device)) for plan in plans)
        return [given_candidate(pipeline, plan, safety) for plan, safety in verdicts if safety.is_safe]
