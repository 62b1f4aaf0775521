"""The safety rule counted against the exhaustive search: `tests/support/safety_counts.py --cases 6000`.

`--claims` counts what verdicts say they rest on instead: each is searched with all that it leaves to the
device. A plan that rests on CUDA's promises alone meets any order of launches and blocks, and a device that
need not issue a block while another is resident; any other plan meets other work on all SMs but those that
it needs, and unless it asks for an idle GPU a second copy of itself.

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
from safety_cases import case_of, launched_case_of, other_work

from wavesim.model.device import Device
from wavesim.safety.deadlock import safety_of
from wavesim.safety.verdict import Assumption, SafetyVerdict

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


def claimed_rules(verdict: SafetyVerdict, device: Device) -> tuple[Rules, int]:
    """(all that a verdict leaves to the device, on how many SMs other work may sit)."""
    if verdict.basis == "cuda":
        return Rules(any_block_order=True, may_decline=True), 0
    is_ordered, copies = Assumption.ORDER in verdict.needs, 2 if verdict.basis == "seen" else 1
    rules = Rules(is_oldest_first=is_ordered, any_block_order=True, copies=copies)
    return rules, device.sm_count - verdict.needed_sms


def claim_of(seed: int, most_states: int = MOST_STATES) -> str:
    """What a plan's verdict rests on, and whether it is so: "cuda: holds", "seen: fails"."""
    pipeline, plan, device = launched_case_of(seed)
    verdict = safety_of(pipeline, plan, device)
    if verdict.basis is None:
        return "refused"
    rules, sms = claimed_rules(verdict, device)
    others, rest = other_work(seed, device, sms), device.with_sm_count(device.sm_count - sms)
    quick = replace(rules, ends_at_any_time=False)
    is_full = all(stage.kernel.carveout == "full" for stage in pipeline.stages)
    searches = [Search(pipeline, plan, device, way, others=others) for way in (rules, quick)[: 1 + is_full]]
    # What is too large with room beside other work may not be where that takes whole SMs.
    searches += [Search(pipeline, plan, rest, way) for way in (rules, quick)[: sms * (1 + is_full)]]
    for search in searches:
        try:
            found = search.finds_deadlock(most_states)
        except TooLargeError:
            continue
        return f"{verdict.basis}: {'fails' if found else 'holds'}"
    return f"{verdict.basis}: too large"


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
    parser.add_argument("--claims", action="store_true", help="count what verdicts rest on")
    options = parser.parse_args()
    seeds = range(options.first, options.first + options.cases)
    with ProcessPoolExecutor(options.processes) as pool:
        if options.claims:
            found = Counter(pool.map(partial(claim_of, most_states=options.states), seeds, chunksize=20))
            sys.stdout.write("".join(f"{words}: {number}\n" for words, number in sorted(found.items())))
            return
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
