"""How a router spreads tokens over experts: given rows of each expert, or drawn from a skewed distribution.

Example: 256 tokens of which each takes 8 of 128 experts are 2,048 rows, 16 an expert on average; drawn with
equal chances the busiest has about 27, by Zipf's law with exponent 1 about 200, nearly every token.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np

from wavesim.errors import DescriptionError
from wavesim.model.kernel import require_positive
from wavesim.safe_io.bounds import real, shown, whole

MOST_EXPERTS, MOST_ROWS, MOST_SKEW = 1_024, 2**20, 8.0
ExpertOrder = Literal["longest", "number"]


@dataclass(frozen=True)
class Routing:
    """Rows of each expert: `counts`, or drawn: expert i with chances as (i + 1) ** -skew, no expert twice
    for a token. Raises `DescriptionError` for counts that do not sum to the tokens' choices.
    """

    tokens: int
    experts: int
    top_k: int
    skew: float = 0.0
    seed: int = 0
    counts: Sequence[int] = ()

    def __post_init__(self) -> None:
        require_positive("routing", tokens=self.tokens, experts=self.experts, top_k=self.top_k)
        whole("experts", self.experts, 1, MOST_EXPERTS)
        whole("top_k", self.top_k, 1, self.experts)
        whole("seed", self.seed)
        real("skew", self.skew, 0, MOST_SKEW)
        object.__setattr__(self, "counts", tuple(self.counts))
        if self.rows > MOST_ROWS:
            raise DescriptionError(
                f"{self.tokens} tokens with {self.top_k} experts each are {self.rows:,} rows; at most "
                f"{MOST_ROWS:,} are simulated"
            )
        if self.counts:
            self._check_counts()

    def _check_counts(self) -> None:
        if len(self.counts) != self.experts:
            raise DescriptionError(
                f"counts has {len(self.counts)} numbers; give the rows of each of {self.experts} experts"
            )
        for count in self.counts:
            whole("counts", count, 0, self.rows)
        if sum(self.counts) != self.rows:
            raise DescriptionError(
                f"counts sum to {shown(sum(self.counts))}; {self.tokens} tokens with {self.top_k} experts "
                f"each are {self.rows} rows. Correct counts, tokens or top_k"
            )

    @property
    def rows(self) -> int:
        """That experts compute."""
        return self.tokens * self.top_k

    @property
    def is_drawn(self) -> bool:
        """Whether another seed would give other counts."""
        return not self.counts and self.top_k < self.experts

    @property
    def expert_rows(self) -> tuple[int, ...]:
        """Rows of each expert."""
        if self.counts:
            return tuple(self.counts)
        return _drawn(self.tokens, self.experts, self.top_k, self.skew, self.seed)

    def in_order(self, order: ExpertOrder) -> tuple[int, ...]:
        """Rows of the experts that have some, in the order in which their tiles come."""
        rows = sorted(self.expert_rows, reverse=True) if order == "longest" else self.expert_rows
        return tuple(count for count in rows if count)


@lru_cache(maxsize=256)
def _drawn(tokens: int, experts: int, top_k: int, skew: float, seed: int) -> tuple[int, ...]:
    """Adding Gumbel noise to logarithms of chances and taking the largest draws without replacement."""
    random = np.random.default_rng(seed)
    scores = -skew * np.log(np.arange(1, experts + 1))
    scores = scores[random.permutation(experts)] + random.gumbel(size=(tokens, experts))
    chosen = np.argpartition(-scores, top_k - 1, axis=1)[:, :top_k]
    return tuple(int(count) for count in np.bincount(chosen.ravel(), minlength=experts))
