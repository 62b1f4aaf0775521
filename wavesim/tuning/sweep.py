"""Sweeps: many plans simulated on any concurrent.futures executor, with progress, interrupt and resume.

Example: 520 plans in batches of a few on two worker processes; each finished batch goes to the results
file; Ctrl-C cancels what has not begun and keeps the rest. Dask's `client.get_executor()` does as well.
"""

import os
import pickle
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Executor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import dataclass

from wavesim.costs.cost_model import CostModel
from wavesim.errors import DeadlockError, DescriptionError, DeviceError
from wavesim.guard.workers import worker_pool
from wavesim.model.device import Device
from wavesim.model.pipeline import Pipeline
from wavesim.plan.plan import Plan
from wavesim.sim.engine import Engine
from wavesim.sim.simulation import simulate
from wavesim.tuning.results_file import ResultsFile

Progress = Callable[[int, int], None]
TILES_WORTH_A_PROCESS = 100_000  # about a second of simulation; starting workers takes half of one
BATCHES = 64


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
    """Makespans in ns by key, None for a plan that deadlocks. Not complete after an interrupt."""

    predicted_ns: dict[str, int | None]
    is_complete: bool


def predicted_ns(question: Question) -> int | None:
    """What the simulator says the plan takes, setup included; None if it deadlocks."""
    costs = question.costs
    engine = Engine(question.pipeline, question.plan, question.device, costs)
    try:
        if costs.memory is not None or costs.clock_gain:  # which settle over several runs
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
    found = {q.key: results.known[q.key] for q in questions if results is not None and q.key in results.known}
    open_questions = [question for question in questions if question.key not in found]
    tell = progress or (lambda _done, _total: None)
    tell(len(found), len(questions))
    try:
        with closing(_answered(open_questions, executor)) as answered:
            for batch, answers in answered:
                for question, answer in zip(batch, answers, strict=True):
                    found[question.key] = answer
                    if results is not None:
                        results.append(question.key, question.name, answer)
                tell(len(found), len(questions))
    except KeyboardInterrupt:
        return Answers(found, is_complete=False)
    return Answers(found, is_complete=True)


Answered = Generator[tuple[Sequence[Question], list[int | None]]]


def _answered(questions: Sequence[Question], executor: Executor | None) -> Answered:
    size = max(1, min(16, len(questions) // BATCHES))
    batches = [questions[i : i + size] for i in range(0, len(questions), size)]
    tiles = sum(stage.grid.size for question in questions for stage in question.pipeline.stages)
    if executor is None and (worker_count() == 1 or tiles < TILES_WORTH_A_PROCESS):
        yield from ((batch, answer_batch(batch)) for batch in batches)
        return
    _require_picklable(questions)
    with _given_or_processes(executor) as pool:
        waiting = {pool.submit(answer_batch, batch): batch for batch in batches}
        try:
            for future in as_completed(waiting):
                yield waiting[future], future.result()
        except BrokenProcessPool as error:
            raise DeviceError(
                "the worker processes have ended; in a script, put the call under "
                "`if __name__ == '__main__':`, or pass executor=ThreadPoolExecutor(1)"
            ) from error
        finally:
            if executor is not None:  # our own pool does so itself as it ends
                for future in waiting:
                    future.cancel()


def worker_count() -> int:
    """CPUs that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _given_or_processes(executor: Executor | None) -> AbstractContextManager[Executor]:
    """The caller's executor, left open, or a process pool of our own."""
    return worker_pool(worker_count()) if executor is None else nullcontext(executor)


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
