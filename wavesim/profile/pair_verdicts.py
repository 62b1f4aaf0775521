"""The pairs of a profile that are worth most, simulated at once: a verdict each, with interval and history.

Example: of three pairs the first two are simulated in 16 s, and neither gains; the third, of 35,000 blocks,
is left out when the time is up, and named.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from wavesim.errors import DescriptionError, RecordingError
from wavesim.predict.recommendation import STREAM, Recommendation, verdict_on
from wavesim.predict.recommendation_text import answer_lines
from wavesim.profile.advice import Advice
from wavesim.profile.pair_file import NOTHING_SAID, PairAnswers, pair_description

Progress = Callable[[int, int], None]


class _TimeUpError(Exception):
    """The time for all pairs is over."""


@dataclass(frozen=True)
class PairVerdict:
    """What the simulator says of a pair, by its number; or why it says nothing."""

    pair: int
    label: str
    verdict: Recommendation | None
    reason: str = ""
    device: str = ""

    @property
    def points(self) -> float | None:
        """What the best plan gains over stream sync, 0 where that is best; None where none was simulated."""
        if self.verdict is None:
            return None
        return 0.0 if self.verdict.best == STREAM else self.verdict.improvement_points

    @property
    def text(self) -> tuple[str, ...]:
        """The verdict in lines, as every command gives it."""
        head = f"pair {self.pair}, {self.label}"
        if self.verdict is None:
            return (f"{head}: not simulated: {self.reason}",)
        return (head, *(f"  {line}" for line in answer_lines(self.verdict, self.device)))

    @property
    def short(self) -> str:
        """The verdict in one line."""
        if self.verdict is None:
            return self.text[0]
        forecast = self.verdict.forecast
        return (
            f"pair {self.pair}: run {self.verdict.best}, {forecast.points:+.1f} % "
            f"({forecast.low:+.1f} to {forecast.high:+.1f}), simulated"
        )

    def as_json(self) -> dict[str, Any]:
        """As `wavesim predict --json` has it, with the pair's number."""
        if self.verdict is None:
            return {"pair": self.pair, "best": None, "recommended": None, "reason": self.reason}
        best = self.verdict.best
        facts = {"best": best, "recommended": best, "reason": self.verdict.reason}
        return {"pair": self.pair, **facts, **self.verdict.forecast.as_json()}


def verdicts_of(
    advice: Advice,
    count: int,
    seconds: float,
    answers: PairAnswers | None = None,
    progress: Callable[[int], Progress] | None = None,
) -> list[PairVerdict]:
    """Verdicts on the pair that was answered about and the first `count` others, in some `seconds` at most.

    `progress(pair)` makes what is called with (done, total) after each plan.
    """
    until = time.monotonic() + seconds
    chosen = [] if answers is None else [answers.pair]
    chosen += [pair.number for pair in advice.visible_pairs if pair.number not in chosen][:count]
    verdicts = []
    for number in chosen:
        said = answers if answers is not None and number == answers.pair else NOTHING_SAID
        show = None if progress is None else progress(number)
        verdicts.append(_verdict(advice, number, said, until, show))
    return verdicts


def _verdict(
    advice: Advice, number: int, answers: PairAnswers, until: float, progress: Progress | None
) -> PairVerdict:
    pair = advice.pair(number)
    label = f"{pair.producer.label} -> {pair.consumer.label}"

    def step(done: int, total: int) -> None:
        if progress is not None:
            progress(done, total)
        if done < total and time.monotonic() > until:
            raise _TimeUpError

    if 2 * pair.overlapped > pair.count and answers is NOTHING_SAID:
        return PairVerdict(number, label, None, ALREADY.format(pair.overlap_ns / pair.count / 1_000))
    if time.monotonic() > until:
        return PairVerdict(number, label, None, TIME_IS_UP)
    try:
        description = pair_description(pair, answers)
        verdict = verdict_on(description.pipeline, description.device, description.kernel_ns, step)
        return PairVerdict(number, label, verdict, device=description.device.name)
    except _TimeUpError:
        return PairVerdict(number, label, None, TIME_IS_UP)
    except (DescriptionError, RecordingError) as error:
        if answers is not NOTHING_SAID:
            raise
        return PairVerdict(number, label, None, str(error))


ALREADY = "its launches overlap by {:.1f} us each already, by programmatic launch: see wavesim pdl"
TIME_IS_UP = "the time is up; give more with --seconds"
