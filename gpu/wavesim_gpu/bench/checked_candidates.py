"""Timing that is judged: outputs are compared before the rounds, and what the rounds left is compared again.

Example: stream sync, row semaphores and cuBLASLt are right, their outputs are overwritten with NaN, twenty
rounds run in turns; then each one's outputs, which only those rounds can have written, are compared again.
"""

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from wavesim.errors import DeadlockError
from wavesim_gpu.bench.result_rows import time_together
from wavesim_gpu.driver.clocks import Sampler
from wavesim_gpu.driver.element_types import to_float32
from wavesim_gpu.run.operands import Operands, poison
from wavesim_gpu.run.program import Program
from wavesim_gpu.run.references import is_right, relative_errors
from wavesim_gpu.run.runner import CupyRunner, OutputCheck
from wavesim_gpu.run.timing import HEAD_START_NS, WARM_UP_S, Contender, Rounds

NONE = Rounds([], [])  # of what was not timed
Entries = Mapping[str, "CheckedCandidate"]


@dataclass(frozen=True)
class CheckedCandidate:
    """A contender and whether it is right: `verdict` before the rounds, `judge` gives the one after them.

    `spoil` overwrites its outputs, in its stream's order, so that what is judged is the rounds' own.
    """

    contender: Contender
    verdict: OutputCheck
    spoil: Callable[[], None]
    judge: Callable[[], OutputCheck]


def time_and_judge(
    entries: Entries, rounds: int, warm_up_s: float = WARM_UP_S, head_start_ns: int = HEAD_START_NS
) -> tuple[dict[str, Rounds], dict[str, OutputCheck], Sampler | None]:
    """Rounds of those that are right, in turns; everybody's verdict, after the rounds for those; the clocks.

    One that turns out wrong after its rounds keeps them beside its bad verdict, and is named on stderr.
    """
    verdicts = {name: entry.verdict for name, entry in entries.items()}
    good = {name: entry for name, entry in entries.items() if entry.verdict.is_good}
    if not good:
        return {}, verdicts, None
    for entry in good.values():
        entry.spoil()
    contenders = {name: entry.contender for name, entry in good.items()}
    found, sampler = time_together(contenders, rounds, warm_up_s, head_start_ns)
    return found, verdicts | judged_again(good), sampler


def judged_again(entries: Entries) -> dict[str, OutputCheck]:
    """Everybody's verdict after the rounds; a bad one is named on stderr."""
    found = {}
    for name, entry in entries.items():
        verdict = found[name] = or_stuck(entry.judge)
        if not verdict.is_good:
            semaphores = "right" if verdict.has_right_semaphores else "wrong"
            words = f"wrong after its timed rounds: errors {dict(verdict.errors)}, semaphores {semaphores}"
            print(f"{name}: {words}", file=sys.stderr, flush=True)  # noqa: T201  # an interrupt loses no news
    return found


def or_stuck(judge: Callable[[], OutputCheck]) -> OutputCheck:
    """The verdict, also where a wait ran out of its time: a bad one, with the first line of the error."""
    try:
        return judge()
    except DeadlockError as error:
        return OutputCheck({str(error).splitlines()[0]: float("nan")}, False, False)


def program_entry(
    runner: CupyRunner, program: Program, contender: Contender, expected: Mapping[str, Any]
) -> CheckedCandidate:
    """A program of ours, judged by what its last run left in outputs of its own."""
    verdict = or_stuck(partial(runner.verdict, program, contender.launch, expected))
    spoil = partial(program.operands.poison, program.streams[0])
    return CheckedCandidate(contender, verdict, spoil, partial(runner.verdict_on_last, program, expected))


def sharing_entry(
    runner: CupyRunner, program: Program, contender: Contender, expected: Mapping[str, Any]
) -> CheckedCandidate:
    """The same where other contenders write the same outputs: judged by one run more over spoilt ones."""

    def judge() -> OutputCheck:
        program.synchronize()  # of the rounds
        return runner.verdict(program, contender.launch, expected)

    entry = program_entry(runner, program, contender, expected)
    return replace(entry, spoil=lambda: None, judge=judge)


def library_entry(
    library: Any, base: Operands, expected: Mapping[str, Any], repeats: int = 1
) -> CheckedCandidate:
    """A library's chain for the same operands; it has no semaphores to be wrong about."""

    def judge() -> OutputCheck:
        library.stream.synchronize()
        outputs = {
            name: to_float32(array, base.pipeline.stage(name).gemm.dtype)
            for name, array in library.outputs.items()
        }
        errors = relative_errors(base, expected, outputs)
        return OutputCheck(errors, is_right(base, errors), has_right_semaphores=True)

    spoil = partial(poison, library.outputs, library.stream)
    spoil()
    library.launch()
    return CheckedCandidate(Contender(library.launch, library.stream, repeats), judge(), spoil, judge)
