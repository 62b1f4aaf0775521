"""The rule of `why-hang` counted against an exhaustive search: `tests/support/hang_counts.py --cases 6400`.

For each kind of trust in the device (docs/why-hang.md) it says how many situations can hang and how many of
them were called safe, which must be none, and how many cannot and were refused. "bound" is the rule for many
operations; "certain" counts what was said to hang whatever the device does, and is searched for an end.
"of_them" says how many of the cases have what a rule could overlook.
"""

import argparse
import json
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from hang_cases import situation_of_seed
from hang_search import HangSearch, TooLargeError

from wavesim.safety.hang.bound import StuckBound
from wavesim.safety.hang.certain import hopeless
from wavesim.safety.hang.facts import SituationFacts
from wavesim.safety.hang.situation import Situation
from wavesim.safety.hang.stuck import ORDERLY, PROMISED, ROOMY, StuckSearch
from wavesim.sim.streams.stream_order import StreamOperation

MOST_STATES = 4_000
TOO_LARGE = "too large"
TRUSTS = {"cuda": PROMISED, "room": ROOMY, "order": ORDERLY}
WHAT = (*TRUSTS, "bound", "certain")
# A hang found by the search, and by the rule; and so on.
OUTCOMES = {
    (False, False): "safe, accepted",
    (False, True): "safe, refused",
    (True, True): "unsafe, refused",
    (True, False): "unsafe, accepted",
}


def outcome_of(seed: int, what: str, most_states: int = MOST_STATES) -> str:
    """One of `OUTCOMES`, or `TOO_LARGE`; `what` is one of `WHAT`."""
    situation = situation_of_seed(seed)
    facts = SituationFacts(situation)
    if what == "certain":
        return certainty_of(facts, most_states)
    trust, rule = (what, StuckSearch) if what in TRUSTS else ("room", StuckBound)
    by_rule = next(rule(facts, TRUSTS[trust]).stuck(), None) is not None
    try:
        return OUTCOMES[HangSearch(situation, trust).finds_hang(most_states), by_rule]
    except TooLargeError:
        return TOO_LARGE


def certainty_of(facts: SituationFacts, most_states: int) -> str:
    """The same for what is said to hang for certain: "unsafe" where it cannot come to its end."""
    by_rule = hopeless(facts) is not None
    try:
        has_end = HangSearch(facts.situation, "room").finds_end(most_states)
    except TooLargeError:
        return TOO_LARGE
    return OUTCOMES[not has_end, by_rule]


def count(seeds: Iterable[int], trust: str, most_states: int = MOST_STATES) -> Counter[str]:
    """How often each outcome was found."""
    return Counter(outcome_of(seed, trust, most_states) for seed in seeds)


def kernels_of(situation: Situation) -> list[StreamOperation]:
    return [one for one in situation.operations if one.is_kernel]


def waits_across(situation: Situation) -> bool:
    posted = {one.name: post.producer for one in situation.semaphores for post in one.posts}
    device_of = {one.name: one.device for one in situation.operations}
    pairs = [(one.waiter, posted.get(one.semaphore, one.producer)) for one in situation.waits]
    return any(device_of[one] != device_of[other] for one, other in pairs)


# What a rule could overlook, by what is asked of a situation.
TRAITS: Mapping[str, Callable[[Situation], bool]] = {
    "three or four kernels": lambda one: len(kernels_of(one)) >= 3,
    "priorities": lambda one: len({kernel.priority for kernel in kernels_of(one)}) > 1,
    "two devices": lambda one: len({kernel.device for kernel in kernels_of(one)}) > 1,
    "waits across devices": waits_across,
    "dependent launches": lambda one: any(kernel.is_dependent for kernel in kernels_of(one)),
    "clusters or cooperative launches": lambda one: any(
        kernel.cluster > 1 or kernel.is_cooperative for kernel in kernels_of(one)
    ),
}


def traits_among(seeds: Iterable[int], outcomes: Iterable[str]) -> dict[str, int]:
    """How many of the cases that were counted have each trait."""
    judged = [situation_of_seed(n) for n, one in zip(seeds, outcomes, strict=True) if one != TOO_LARGE]
    return {trait: sum(map(TRAITS[trait], judged)) for trait in sorted(TRAITS)}


def summary(counts: Counter[str]) -> dict[str, Any]:
    safe = counts["safe, accepted"] + counts["safe, refused"]
    unsafe = counts["unsafe, accepted"] + counts["unsafe, refused"]
    return {
        "cases": safe + unsafe,
        "unsafe": unsafe,
        "unsafe_called_safe": counts["unsafe, accepted"],
        "safe": safe,
        "safe_refused": counts["safe, refused"],
        "safe_refused_share": round(counts["safe, refused"] / max(1, safe), 5),
        "too_large": counts[TOO_LARGE],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=6_400)
    parser.add_argument("--first", type=int, default=0, help="the first case's seed")
    parser.add_argument("--states", type=int, default=MOST_STATES, help="most states of one case")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--what", nargs="+", choices=WHAT, default=WHAT, help="rules to count")
    parser.add_argument("--out", type=Path, help="add the counts to this JSON file")
    options = parser.parse_args()
    seeds = range(options.first, options.first + options.cases)
    found = json.loads(options.out.read_text()) if options.out and options.out.exists() else {}
    with ProcessPoolExecutor(options.processes) as pool:
        for trust in options.what:
            ask = partial(outcome_of, what=trust, most_states=options.states)
            outcomes = list(pool.map(ask, seeds, chunksize=20))
            found[trust] = summary(Counter(outcomes)) | {"of_them": traits_among(seeds, outcomes)}
            sys.stdout.write(f"{trust}: {found[trust]}\n")
            sys.stdout.flush()
    if options.out:
        options.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
