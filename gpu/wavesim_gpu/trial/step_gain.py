"""What a whole step gained, and the verdict: by how much, or to leave the model as it is.

Example: 20 rounds in which the swapped model was 5.9 to 6.4 % faster than the model as it was, which in turn
differed from itself by 0.1 %: "gains 6.2 % (5.9 to 6.4)". Half a per cent within 0.6 of noise: leave it.
"""

from dataclasses import dataclass

import numpy as np

from wavesim_gpu.trial.step_times import StepTimes

LEAVE = "leave it as it is"


@dataclass(frozen=True)
class StepGain:
    """Time saved by the swap, in per cent of the step as it was: median and quartiles of the rounds.

    `noise` is what the step as it was, timed twice, differs from itself.
    """

    median: float
    low: float
    high: float
    noise: float

    @property
    def is_real(self) -> bool:
        """Whether three quarters of the rounds gained, and the median more than the noise."""
        return self.low > 0 and self.median > self.noise

    def __str__(self) -> str:
        return f"{self.median:.1f} % ({self.low:.1f} to {self.high:.1f})"


def gain_of(before: StepTimes, again: StepTimes, after: StepTimes) -> StepGain:
    """The gain over the rounds' pairs."""
    return StepGain(*saved_percent(before, after), noise=abs(saved_percent(before, again)[0]))


def verdict_of(gain: StepGain) -> str:
    """The last line of a trial that was timed."""
    if gain.is_real:
        return f"gains {gain}"
    if gain.high < 0:
        longer = f"{-gain.median:.1f} % longer ({-gain.high:.1f} to {-gain.low:.1f})"
        return f"{LEAVE}: swapped, the step takes {longer}"
    said = f"the gain of {gain} is no more than the noise ({gain.noise:.1f} %) or not in most rounds"
    return f"{LEAVE}: {said}"


def saved_percent(before: StepTimes, after: StepTimes) -> tuple[float, float, float]:
    """Per cent of the time before that is saved: median, lower and upper quartile of the rounds' pairs."""
    saved = 100 * (1 - np.array(after.times_ns, float) / np.array(before.times_ns, float))
    low, median, high = np.percentile(saved, [25, 50, 75])
    return float(median), float(low), float(high)
