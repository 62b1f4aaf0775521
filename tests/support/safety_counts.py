"""The safety rule counted against the exhaustive search: `tests/support/safety_counts.py --cases 6000`.

Every case is searched with all launch orders, head starts, placements and completion orders. Where
that is too large and all kernels ask for the same carve-out, blocks end as soon as they can, which
finds the same deadlocks: the same blocks can be issued to the same SMs, which have no less room, and
who can never end is the same. What is still too large is not counted.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import partial

from exhaustive_search import Rules, Search, TooLargeError
from safety_cases import case_of

from wavesim.check.deadlock import safety_of

MOST_STATES = 6_000
ANY_HARDWARE = Rules()
WHOLE_LAUNCHES = Rules(has_head_starts=False, places_anywhere=False)
# A deadlock found, and the rule said safe; and so on.
OUTCOMES = {
    (False, True): "safe, accepted",
    (False, False): "safe, refused",
    (True, False): "unsafe, refused",
    (True, True): "unsafe, accepted",
}


def outcome_of(seed: int, rules: Rules = ANY_HARDWARE, most_states: int = MOST_STATES) -> str:
    """One of `OUTCOMES`, with how it was searched; or "too large"."""
    pipeline, plan, device = case_of(seed)
    accepted = safety_of(pipeline, plan, device).is_safe
    try:
        found = Search(pipeline, plan, device, rules).finds_deadlock(most_states)
    except TooLargeError:
        carveouts = {stage.kernel.carveout for stage in pipeline.stages}
        if carveouts != {"full"} or not rules.places_anywhere:
            return "too large"
        quick = replace(rules, ends_at_any_time=False)
        try:
            found = Search(pipeline, plan, device, quick).finds_deadlock(most_states)
        except TooLargeError:
            return "too large"
        return f"{OUTCOMES[found, accepted]}, ending at once"
    return OUTCOMES[found, accepted]


def count(outcomes: Iterable[str]) -> Counter[str]:
    """How often each outcome was found; "ending at once" counts both ways."""
    counts: Counter[str] = Counter()
    for outcome in outcomes:
        counts[outcome.removesuffix(", ending at once")] += 1
        counts["ending at once"] += outcome.endswith("ending at once")
    return counts


def summary(counts: Counter[str]) -> str:
    safe = counts["safe, accepted"] + counts["safe, refused"]
    unsafe = counts["unsafe, accepted"] + counts["unsafe, refused"]
    quick, left = counts["ending at once"], counts["too large"]
    accepted, refused = counts["unsafe, accepted"], counts["safe, refused"]
    return (
        f"{safe + unsafe} cases ({quick} with blocks ending at once; {left} more too large)\n"
        f"  unsafe {unsafe}, accepted {accepted}\n"
        f"  safe {safe}, refused {refused} ({refused / max(1, safe):.2%})\n"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=6_000)
    parser.add_argument("--first", type=int, default=0, help="the first case's seed")
    parser.add_argument("--states", type=int, default=MOST_STATES, help="most states of one case")
    parser.add_argument("--processes", type=int, default=2)
    options = parser.parse_args()
    seeds = range(options.first, options.first + options.cases)
    with ProcessPoolExecutor(options.processes) as pool:
        for words, rules in (
            ("any order of issue, any placement", ANY_HARDWARE),
            ("launches issued whole in any order, on the SM with fewest blocks", WHOLE_LAUNCHES),
        ):
            found = count(
                pool.map(partial(outcome_of, rules=rules, most_states=options.states), seeds, chunksize=20)
            )
            sys.stdout.write(f"{words}: {summary(found)}")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
