"""How much work questions about one kernel may take: a hostile one is given up, in seconds, and said to be.

Example: 30,000 loops within each other have a billion pairs of a branch and what depends on it; the largest
kernel of CUTLASS's has 20,000 instructions and takes 1 % of the steps.
"""

from wavesim.errors import RecordingError

MOST_STEPS = 10_000_000  # up to 10 s, and 500 MB where each is kept


class Effort:
    """Counts down. `spend` raises `RecordingError` when nothing is left, naming what took the steps."""

    def __init__(self, what: str, most: int = MOST_STEPS) -> None:
        self._what = what
        self._most = self._left = most

    def spend(self, steps: int) -> None:
        """Takes the steps off what is left."""
        self._left -= steps
        if self._left < 0:
            raise RecordingError(
                f"{self._what[:70]} branches too much to be followed in {self._most:,} steps:"
                " check its parts one by one"
            )
