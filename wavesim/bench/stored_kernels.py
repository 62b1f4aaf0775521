"""Names under which measurements of our kernels are stored: which backend and plan each of them means.

Example: results and recordings say that "row" ran on "hopper-dependent": row semaphores on persistent blocks
by dependent launch, on the Hopper backend. `plan_of` and `stored_names` are the only way from one to the
other; the names are in `lists/gemms.toml`.
"""

import tomllib
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from wavesim.errors import DescriptionError
from wavesim.plan.parsing import parse_plan, plan_of_words
from wavesim.plan.plan import Plan

DATA = Path(__file__).parent / "lists" / "gemms.toml"
STREAM = "stream"  # the word of all plans without semaphores


@dataclass(frozen=True)
class StoredKernels:
    """What a stored name means: backend, and how plans without semaphores schedule and launch its kernels.

    `k_block` is the depth of a tile's step. `measured` says what was measured; `uses_wgmma`: whether their
    products reach that instruction's rate.
    """

    backend: str
    schedule: str
    launch: str
    k_block: int
    measured: str
    uses_wgmma: bool

    def plan_of(self, word: str, order: str) -> Plan:
        """The plan that ran under a word such as "stream", "row" or "persistent:tile"."""
        if word == STREAM:
            return plan_of_words(self.schedule, self.launch, "boundary", order)
        named = parse_plan(word, order)
        if not named.sync.has_semaphores or named.schedule.is_fused:
            return named
        own = plan_of_words(self.schedule, self.launch, "boundary")
        launch = own.launch if own.launch.is_dependent else named.launch
        return replace(named, schedule=own.schedule, launch=launch)


@cache
def stored_data() -> dict[str, Any]:
    """The whole data file."""
    return tomllib.loads(DATA.read_text(encoding="utf-8"))


@cache
def all_kernels() -> dict[str, StoredKernels]:
    """Every stored name."""
    return {name: StoredKernels(**entry) for name, entry in stored_data()["kernels"].items()}


def kernels_named(name: str) -> StoredKernels:
    """What a stored name means. Raises `DescriptionError` that lists them."""
    if name not in all_kernels():
        raise DescriptionError(f"kernels is {name!r}; there are {', '.join(all_kernels())}")
    return all_kernels()[name]


def stored_names(backend: str, plan: Plan) -> tuple[str, str]:
    """(kernels, plan) that results of a plan on a backend are stored under.

    Raises `DescriptionError` for a plan that no stored name means.
    """
    word = plan_word(plan)
    # The policy is in the word alone; a generated one is no word that `parse_plan` knows.
    asked = "row" if plan.sync.has_semaphores and not plan.schedule.is_fused else word
    for name, kernels in all_kernels().items():
        if kernels.backend == backend and _parts(kernels.plan_of(asked, "row")) == _parts(plan):
            return name, word
    raise DescriptionError(f"{plan.label} on backend {backend!r} has no stored name; add one to {DATA.name}")


def plan_word(plan: Plan) -> str:
    """The word that a plan is stored under beside the name of its kernels."""
    if plan.schedule.is_fused:
        return plan.name
    return plan.sync.word if plan.sync.has_semaphores else STREAM


def _parts(plan: Plan) -> tuple[str, str]:
    return plan.schedule.word, plan.launch.word
