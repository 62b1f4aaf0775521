"""Blind runs of kernels that are not ours: what was known before, what was predicted, what was measured.

Example: a pair's two kernels took 310 and 290 us alone. From these, with what their author knows (sizes,
k-blocks in flight, where they wait) and without, and from a recorded stream-sync run, four plans were
predicted before any of them had run. A run is stored as a `BlindRun`'s folder; run.json has the pairs' facts.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path

from wavesim.bench.blind_runs import Basis, BlindRun, find_runs, pooled
from wavesim.bench.foreign_pairs import BASELINE, ForeignPair, pair_of
from wavesim.bench.jobs import Job
from wavesim.bench.registration import CasePrediction
from wavesim.bench.scored_case import ScoredPrediction, by_ceil_formula, time_error_percent
from wavesim.errors import RecordingError, WavesimError
from wavesim.model import device as devices
from wavesim.model.device import Device
from wavesim.model.kernel import Block
from wavesim.model.occupancy import occupancy_of
from wavesim.model.pipeline import Pipeline
from wavesim.plan.plan import StreamSync
from wavesim.predict.defaults import described_costs
from wavesim.predict.forecast import Forecast, forecast_of
from wavesim.predict.intervals import spread_points
from wavesim.predict.kinds import STREAM_TRACE, known_text, trace_kind
from wavesim.predict.known_costs import KnownCosts
from wavesim.predict.prediction import improvement_of_rounds, predict_from_stream
from wavesim.recordings.shipped import FOLDER
from wavesim.trace.trace import Trace
from wavesim.trace.trace_archive import has_trace, load_trace

RUNS = FOLDER / "foreign"
FOREIGN_BASES: tuple[Basis, ...] = ("trace", "kernel-times", "profile")
# Kernel times with what their author knows, and with what a profiler shows, are scored apart.
SOURCES: Mapping[Basis, str] = {
    "trace": "foreign-trace",
    "kernel-times": "foreign",
    "profile": "foreign-profile",
}


@dataclass(frozen=True)
class KnownPair:
    """A pair before any plan has run: each kernel's time alone, what its blocks occupy, stream sync's time.

    `stream` is a recorded run of it, None of kernels that cannot be recorded.
    """

    pair: ForeignPair
    kernel_ns: Mapping[str, int]
    blocks: Mapping[str, Block]
    stream_ns: int
    stream: Trace | None = None

    @property
    def bases(self) -> tuple[Basis, ...]:
        """What its plans can be predicted from."""
        return FOREIGN_BASES if self.stream is not None else FOREIGN_BASES[1:]

    def pipeline(self, basis: Basis) -> Pipeline:
        """The pair as it is described for a prediction."""
        return self.pair.seen(self.blocks) if basis == "profile" else self.pair.told(self.blocks)


@dataclass(frozen=True)
class ComparedPair:
    """Rounds of stream sync and the plans in nanoseconds, by word; why plans are missing; traces of some."""

    rounds: Mapping[str, Sequence[int]]
    missing: Mapping[str, str]
    traces: Mapping[str, Trace]


def predicted_pair(known: KnownPair, device_name: str) -> dict[Basis, list[CasePrediction]]:
    """What all plans of a pair will take, on every basis. A plan that cannot be predicted is left out."""
    device, pair = devices.load(device_name), known.pair
    result: dict[Basis, list[CasePrediction]] = {}
    for basis in known.bases:
        result[basis] = [CasePrediction(pair.name, pair.order, BASELINE, known.stream_ns, 0.0)]
        for word in pair.plans:
            with suppress(WavesimError):
                trace, told = _forecast(known, word, device, basis)
                ends = told.low, told.high, told.support
                prediction = CasePrediction(pair.name, pair.order, word, trace.time_ns, told.points, *ends)
                result[basis].append(prediction)
    return result


def _forecast(known: KnownPair, word: str, device: Device, basis: Basis) -> tuple[Trace, Forecast]:
    """The plan's simulated run, and what a user is told of it."""
    pipeline, plan = known.pipeline(basis), known.pair.plan(word)
    if basis == "trace":
        assert known.stream is not None, "trace is not among its bases"
        trace, points = predict_from_stream(pipeline, plan, device, known.stream)
        kind = trace_kind(known_text(STREAM_TRACE, pipeline), known.stream.header.stages, plan.name)
        return trace, forecast_of(points, trace, kind, device.name)
    costs = _costs(pipeline, device, tuple(known.kernel_ns.items()))
    return costs.predicted(pipeline, plan, StreamSync(plan.order), device)


@lru_cache(maxsize=2)
def _costs(pipeline: Pipeline, device: Device, kernel_ns: tuple[tuple[str, int], ...]) -> KnownCosts:
    """Kept for all plans of a pair."""
    return described_costs(pipeline, device, dict(kernel_ns))


def trace_path(folder: Path, pair: ForeignPair, word: str = BASELINE) -> Path:
    """Where a pair's trace under a plan is."""
    stem = pair.name.replace(" ", "_").replace("/", "-").replace(":", "")
    return folder / f"{stem}_{word}.npz"


def known_pairs(run: BlindRun) -> dict[str, KnownPair]:
    """What was known before, by the pairs' names. Raises `RecordingError`."""
    pairs = {}
    for name, entry in run.facts.get("pairs", {}).items():
        try:
            pair = pair_of(entry["pair"])
            blocks = {stage: Block(**block) for stage, block in entry["blocks"].items()}
            path = trace_path(run.folder, pair)
            stream = load_trace(path) if has_trace(path) else None
            pairs[name] = KnownPair(pair, entry["kernel_ns"], blocks, entry["stream_ns"], stream)
        except (KeyError, TypeError, AttributeError) as error:
            raise RecordingError(f"{run.folder / 'run.json'}: pair {name!r} is damaged: {error!r}") from None
    return pairs


def foreign_jobs(folder: Path | None = None) -> list[Job]:
    """One job for each pair of each run. Raises `RecordingError` for a run that was changed."""
    return [
        partial(_of_pair, run.folder, name)
        for run in find_runs(RUNS if folder is None else folder)
        for name in run.comparisons
    ]


def _of_pair(folder: Path, name: str) -> list[ScoredPrediction]:
    run = BlindRun(folder)
    known, device = known_pairs(run)[name], devices.load(run.facts["device"])
    (measured, *_) = run.comparisons[name]
    words = [word for _, word in measured.rounds if word != BASELINE]
    pair = [_scored(run, known, word, device, basis) for basis in known.bases for word in words]
    return [entry for entry in pair if entry is not None]


def _scored(
    run: BlindRun, known: KnownPair, word: str, device: Device, basis: Basis
) -> ScoredPrediction | None:
    """None for what could not be predicted before. Of a trial nothing was predicted."""
    pair = known.pair
    before = run.predictions_from(basis).get((pair.name, pair.order, word))
    if before is not None and before.error:
        return None
    trace, result = _forecast(known, word, device, basis)
    per_sm = [
        occupancy_of(device, stage.kernel.block).blocks_per_sm for stage in known.pipeline(basis).stages
    ]
    counts = [stage.grid.size for stage in known.pipeline(basis).stages]
    repeats = run.comparisons[pair.name]
    ours, theirs = (pooled(repeats, pair.order, entry).ns for entry in (word, BASELINE))
    measured = improvement_of_rounds(ours, theirs)
    return ScoredPrediction(
        case=pair.name,
        plan=word,
        group=pair.name,
        source=SOURCES[basis],
        family=f"foreign {pair.wait_place}",
        run=run.name,
        device=device.name,
        kind=result.kind,
        predicted=result.points,
        scenarios=result.scenarios,
        before=None if before is None else before.improvement_points,
        before_interval=None if before is None else before.interval,
        measured=measured,
        ceil_formula=by_ceil_formula(counts, [device.sm_count * most for most in per_sm]),
        time_error_percent=time_error_percent(result.points, measured.median),
        blocks_per_sm=max(per_sm),
        spread=spread_points(trace, result.points),
    )
