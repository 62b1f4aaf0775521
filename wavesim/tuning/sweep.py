"""Sweeps: many plans simulated on any concurrent.futures executor, with progress, interrupt and resume.

Example: 50,000 plans in batches of 195 on two worker processes; each finished batch goes to the results
file; Ctrl-C cancels what has not begun and keeps the rest. Dask's `client.get_executor()` does as well.
"""

import pickle
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from contextlib import closing
from dataclasses import dataclass

from wavesim.costs.cost_model import CostModel
from wavesim.errors import DeadlockError, DescriptionError
from wavesim.model.device import Device
from wavesim.model.pipeline import Pipeline
from wavesim.plan.plan import Plan
from wavesim.sim.engine import Engine
from wavesim.sim.simulation import simulate
from wavesim.tuning.batches import Answered, answered, in_batches, worker_count
from wavesim.tuning.results_file import ResultsFile

Progress = Callable[[int, int], None]
TILES_WORTH_A_PROCESS = 100_000  # about a second of simulation; starting workers takes half of one


@dataclass(frozen=True)
class Question:
    """One plan to be simulated. `key` stands for all of it, from sweep to sweep."""

    key: str
    name: str
    pipeline: Pipeline
    plan: Plan
    device: Device
    costs: CostModel


@dataclass(frozen=True)
class Answers:
    """Makespans in ns by key, None for a plan that deadlocks. Not complete after an interrupt.

    `lost_workers` ended before their time; what they had was answered again.
    """

    predicted_ns: dict[str, int | None]
    is_complete: bool
    lost_workers: tuple[str, ...] = ()


def predicted_ns(question: Question) -> int | None:
    """What the simulator says the plan takes, setup included; None if it deadlocks."""
    costs = question.costs
    engine = Engine(question.pipeline, question.plan, question.device, costs)
    try:
        if costs.settles:
            return simulate(question.pipeline, question.plan, question.device, costs).time_ns
        engine.run()
    except DeadlockError:
        return None
    blocks_ns = max(engine.rows.end) - min(engine.rows.issue)
    return blocks_ns + costs.outside_ns(question.plan)


def answer_batch(batch: Sequence[Question]) -> list[int | None]:
    """Runs in a worker."""
    return [predicted_ns(question) for question in batch]


def run_sweep(
    questions: Sequence[Question],
    executor: Executor | None = None,
    progress: Progress | None = None,
    results: ResultsFile | None = None,
) -> Answers:
    """Answers all questions that `results` does not know; `progress(done, total)` after every batch.

    Without an executor: worker processes where the sweep is long enough to pay for them. An interrupt
    (Ctrl-C) ends the sweep and keeps what is finished.
    """
    known = {q.key: results.known[q.key] for q in questions if results is not None and q.key in results.known}
    open_questions = [question for question in questions if question.key not in known]
    tell = progress or (lambda _done, _total: None)
    lost: list[str] = []
    tell(len(known), len(questions))
    try:
        with closing(_answered(open_questions, executor, lost)) as finished:
            for batch, answers in finished:
                for question, answer in zip(batch, answers, strict=True):
                    known[question.key] = answer
                    if results is not None:
                        results.append(question.key, question.name, answer)
                tell(len(known), len(questions))
    except KeyboardInterrupt:
        return Answers(known, is_complete=False, lost_workers=tuple(lost))
    return Answers(known, is_complete=True, lost_workers=tuple(lost))


def _answered(
    questions: Sequence[Question], executor: Executor | None, lost: list[str]
) -> Answered[Question, list[int | None]]:
    batches = in_batches(questions)
    tiles = sum(stage.grid.size for question in questions for stage in question.pipeline.stages)
    if executor is None and (worker_count() == 1 or tiles < TILES_WORTH_A_PROCESS):
        yield from ((batch, answer_batch(batch)) for batch in batches)
        return
    _require_picklable(questions)
    yield from answered(answer_batch, batches, executor, lost)


def _require_picklable(questions: Sequence[Question]) -> None:
    seen: set[int] = set()
    for question in questions:
        parts = (question.pipeline, question.plan)
        if all(id(part) in seen for part in parts):
            continue
        seen |= {id(part) for part in parts}
        try:
            pickle.dumps(parts)
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            raise DescriptionError(
                f"plan {question.name} cannot be sent to another process ({error}); define its functions at "
                "the top level of a module"
            ) from error
