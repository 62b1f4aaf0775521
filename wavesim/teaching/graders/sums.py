"""Exercises of notebook 20: active warps, bank conflicts, a tree without either, loads per multiply-add."""

from typing import Any

from wavesim.sm.banks import wavefronts
from wavesim.sm.reduction import THREADS, TreeStep, tree
from wavesim.teaching.exercises import Exercise, pair, plain, require, whole
from wavesim.teaching.sums import tree_steps

STRIDES = (8, 33)
WARP = 32
TILED_LOADS, REGISTER_LOADS = 32, 8
MOST = 100_000  # of any number that is asked for


def grade_warps(answer: Any) -> str:
    """Warps with a thread that adds in the first step, in v0 and in v1."""
    for given, name in zip(pair(answer, "warps in v0, in v1"), ("v0", "v1"), strict=True):
        truth = sum(warp.active > 0 for warp in tree(name)[0].warps)
        require(
            whole(given, 0, MOST) == truth,
            f"{given} warps in {name}? 128 threads of 256 add; which ones, and in which warps are they?",
        )
    return "Every second thread is in all eight warps; the first 128 threads are four whole ones."


def grade_strides(answer: Any) -> str:
    """Wavefronts at a stride of 8 words and of 33."""
    for given, stride in zip(pair(answer, "wavefronts at 8, at 33"), STRIDES, strict=True):
        truth = wavefronts([lane * stride for lane in range(WARP)])
        require(
            whole(given, 0, MOST) == truth,
            f"{given} at a stride of {stride}? Lane i is in bank {stride} × i mod 32; how many share one?",
        )
    return "At 8 only four banks are used, by 8 lanes each; 33 is odd, so all 32 are."


def grade_worst(answer: Any) -> str:
    """v1's most wavefronts of a store, and the first distance at which a warp needs them."""
    steps = tree("v1")
    most = max(warp.store for step in steps for warp in step.warps)
    first = next(step.distance for step in steps if max(warp.store for warp in step.warps) == most)
    given, distance = pair(answer, "wavefronts, distance")
    require(
        whole(given, 0, MOST) == most,
        f"{given} wavefronts? Lanes are twice the distance apart, and from some step on fewer than 32 add.",
    )
    require(
        whole(distance, 0, MOST) == first,
        f"{most} wavefronts, but not at distance {distance} for the first time.",
    )
    return "Lanes 8 words apart, and still 32 of them: 8 in each of four banks."


def grade_tree(answer: Any) -> str:
    """A function of (thread, step) that says what the thread adds: right, without conflicts or divergence."""
    require(callable(answer), "give a function of (thread, step) that returns (element, other) or None.")
    sums = [{element} for element in range(THREADS)]
    for number, step in enumerate(tree_steps(lambda thread, step: _added(answer(thread, step)))):
        _require_pairs(step, number)
        _add(sums, step, number)
        for index, warp in enumerate(step.warps):
            require(
                warp.store <= 1 and warp.loads <= 2,
                f"step {number}: warp {index} takes {warp.store} wavefronts to store.",
            )
        _require_whole_warps(step, number)
    missing = THREADS - len(sums[0])
    require(not missing, f"element 0 ends without {missing} of the {THREADS} elements.")
    return "All 256 are added, in whole warps as long as a warp's worth add, one wavefront each."


def _added(returned: Any) -> Any:
    """What the reader's function returns, with lists and NumPy's numbers as tuples of Python's."""
    found = plain(returned)
    return tuple(found) if isinstance(found, list) else found


def _require_pairs(step: TreeStep, number: int) -> None:
    for thread, added in enumerate(step.added):
        is_pair = isinstance(added, tuple) and len(added) == 2 and all(type(one) is int for one in added)
        where = f"step {number}, thread {thread}: {added!r}"
        require(added is None or is_pair, f"{where} is not (element, other) or None.")
        require(
            added is None or all(0 <= one < THREADS for one in added),
            f"{where} is beyond the {THREADS} elements.",
        )


def _add(sums: list[set[int]], step: TreeStep, number: int) -> None:
    """Adds as the threads do, at once; refuses what would be a race, and what is added twice."""
    pairs = [added for added in step.added if added is not None]
    owned = [own for own, _ in pairs]
    require(len(set(owned)) == len(owned), f"step {number}: two threads write the same element.")
    race = next((other for _, other in pairs if other in set(owned)), None)
    require(race is None, f"step {number}: element {race} is read by one thread while another writes it.")
    for own, other in pairs:
        require(not sums[own] & sums[other], f"step {number}: element {own} gets some elements twice.")
        sums[own] |= sums[other]


def _require_whole_warps(step: TreeStep, number: int) -> None:
    active = sum(added is not None for added in step.added)
    used = sum(warp.active > 0 for warp in step.warps)
    least = -(-active // WARP)
    require(used <= least, f"step {number}: {active} threads add, in {used} warps; {least} are enough.")


def grade_loads(answer: Any) -> str:
    """Loads from shared memory per 16 multiply-adds of a thread: tiled, and 4 x 4 elements per thread."""
    truths = (TILED_LOADS, REGISTER_LOADS)
    names = ("tiled", "4 × 4 elements per thread")
    for given, truth, name in zip(pair(answer, "tiled, 4 × 4 elements"), truths, names, strict=True):
        require(
            whole(given, 0, MOST) == truth,
            f"{given} with {name}? Per k a thread needs a word of the left tile for each of its rows and one "
            "of the right for each of its columns; how many multiply-adds do they give?",
        )
    return "Two per multiply-add, or 4 + 4 for 16: a quarter."


EXERCISES = (
    Exercise("20.1", "Warps that add in the first step: (v0, v1)", grade_warps),
    Exercise("20.2", "Wavefronts of a warp at strides of (8 words, 33 words)", grade_strides),
    Exercise("20.3", "v1's (most wavefronts, first distance that needs them)", grade_worst),
    Exercise("20.4", "A tree of 256 sums without divergence and without conflicts", grade_tree),
    Exercise("20.5", "Shared loads per 16 multiply-adds: (tiled, 4 × 4 per thread)", grade_loads),
)
