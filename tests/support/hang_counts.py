"""The rule of `why-hang` counted against an exhaustive search: `tests/support/hang_counts.py --cases 6000`.

For each kind of trust in the device (docs/why-hang.md) it says how many situations can hang and how many of
them were called safe, which must be none, and how many cannot and were refused. "bound" is the rule for many
operations; "certain" counts what was said to hang whatever the device does, and is searched for an end.
"""

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import get_args

from hang_cases import situation_of_seed
from hang_search import HangSearch, TooLargeError

from wavesim.hang.bound import StuckBound
from wavesim.hang.certain import hopeless
from wavesim.hang.stuck import Ground, StuckSearch, Trust

MOST_STATES = 4_000
TRUSTS: tuple[Trust, ...] = get_args(Trust)
WHAT = (*TRUSTS, "bound", "certain")
# A hang found by the search, and by the rule; and so on.
OUTCOMES = {
    (False, False): "safe, accepted",
    (False, True): "safe, refused",
    (True, True): "unsafe, refused",
    (True, False): "unsafe, accepted",
}


def outcome_of(seed: int, what: str, most_states: int = MOST_STATES) -> str:
    """One of `OUTCOMES`, or "too large"; `what` is one of `WHAT`."""
    situation = situation_of_seed(seed)
    ground = Ground(situation)
    if what == "certain":
        return certainty_of(ground, most_states)
    trust, rule = (what, StuckSearch) if what in TRUSTS else ("room", StuckBound)
    by_rule = next(rule(ground, trust).stuck(), None) is not None
    try:
        return OUTCOMES[HangSearch(situation, trust).finds_hang(most_states), by_rule]
    except TooLargeError:
        return "too large"


def certainty_of(ground: Ground, most_states: int) -> str:
    """The same for what is said to hang for certain: "unsafe" where it cannot come to its end."""
    by_rule = hopeless(ground) is not None
    try:
        has_end = HangSearch(ground.situation, "room").finds_end(most_states)
    except TooLargeError:
        return "too large"
    return OUTCOMES[not has_end, by_rule]


def count(seeds: Iterable[int], trust: str, most_states: int = MOST_STATES) -> Counter[str]:
    """How often each outcome was found."""
    return Counter(outcome_of(seed, trust, most_states) for seed in seeds)


def summary(counts: Counter[str]) -> dict[str, float]:
    safe = counts["safe, accepted"] + counts["safe, refused"]
    unsafe = counts["unsafe, accepted"] + counts["unsafe, refused"]
    return {
        "cases": safe + unsafe,
        "unsafe": unsafe,
        "unsafe_called_safe": counts["unsafe, accepted"],
        "safe": safe,
        "safe_refused": counts["safe, refused"],
        "safe_refused_share": round(counts["safe, refused"] / max(1, safe), 5),
        "too_large": counts["too large"],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=6_000)
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
            found[trust] = summary(Counter(pool.map(ask, seeds, chunksize=20)))
            sys.stdout.write(f"{trust}: {found[trust]}\n")
            sys.stdout.flush()
    if options.out:
        options.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
