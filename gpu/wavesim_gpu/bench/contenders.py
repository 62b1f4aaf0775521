"""Timing that is judged: outputs are compared before the rounds, and what the rounds left is compared again.

Example: stream sync, row semaphores and cuBLASLt are right, their outputs are overwritten with NaN, twenty
rounds run in turns; then each one's outputs, which only those rounds can have written, are compared again.
"""

import math
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from wavesim.errors import DeadlockError
from wavesim_gpu.driver.clocks import Sampler
from wavesim_gpu.run.operands import Operands
from wavesim_gpu.run.program import Program
from wavesim_gpu.run.references import is_right, relative_errors
from wavesim_gpu.run.runner import CupyRunner, OutputCheck
from wavesim_gpu.run.timing import HEAD_START_NS, WARM_UP_S, Contender, Rounds, interleaved

RESULTS = Path(__file__).parents[2] / "results"
# To choose by, in two steps; the figures come from later rounds. Of many candidates over few rounds the
# fastest is often the luckiest: the fastest few are screened again.
SCREENING_ROUNDS, SHORTLIST_ROUNDS, SCREENING_WARM_UP_S = 5, 12, 0.05
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
    result, sampler = time_together(contenders, rounds, warm_up_s, head_start_ns)
    return result, verdicts | judged_again(good), sampler


def judged_again(entries: Entries) -> dict[str, OutputCheck]:
    """Everybody's verdict after the rounds; a bad one is named on stderr."""
    result = {}
    for name, entry in entries.items():
        verdict = result[name] = or_stuck(entry.judge)
        if not verdict.is_good:
            semaphores = "right" if verdict.has_right_semaphores else "wrong"
            words = f"wrong after its timed rounds: errors {dict(verdict.errors)}, semaphores {semaphores}"
            print(f"{name}: {words}", file=sys.stderr, flush=True)  # noqa: T201  # an interrupt loses no news
    return result


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
    """A library's chain for the same operands; it has no semaphores to be wrong about.

    Of some libraries only the last stage's results are there to compare.
    """

    def judge() -> OutputCheck:
        library.stream.synchronize()
        outputs = library.results()
        errors = relative_errors(base, {name: expected[name] for name in outputs}, outputs)
        is_good = is_right(base, {**dict.fromkeys(expected, 0.0), **errors})
        return OutputCheck(errors, is_good, has_right_semaphores=True)

    library.spoil()
    library.launch()
    return CheckedCandidate(Contender(library.launch, library.stream, repeats), judge(), library.spoil, judge)


def time_together(
    contenders: Mapping[str, Contender],
    rounds: int,
    warm_up_s: float = WARM_UP_S,
    head_start_ns: int = HEAD_START_NS,
) -> tuple[dict[str, Rounds], Sampler]:
    """Rounds of all contenders in turns, by name, and the clock and power while they ran."""
    with Sampler() as sampler:
        result = interleaved(list(contenders.values()), rounds, warm_up_s, head_start_ns)
    return dict(zip(contenders, result, strict=True)), sampler


def describe_case(
    name: str, tags: Mapping[str, Any], rounds: Rounds, verdict: OutputCheck | None, sampler: Sampler | None
) -> dict[str, Any]:
    """One row. Without a verdict there is nothing to be right about, as for a copy by the driver.

    Without clocks where a round has none, because no SM left both stamps: readers take all or none.
    """
    has_clocks = all(math.isfinite(clock) for clock in rounds.clocks_ghz)
    judged = None if verdict is None else {**asdict(verdict), "is_good": verdict.is_good}
    return {
        "name": name,
        **tags,
        "rounds_ns": rounds.times_ns,
        "clocks_ghz": rounds.clocks_ghz if has_clocks else [],
        "verdict": judged,
        **(asdict(sampler.reading) if sampler is not None else {}),
    }
