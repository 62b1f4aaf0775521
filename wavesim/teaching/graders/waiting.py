"""Exercises of notebook 22: what moving a flag wins, scopes in a cluster, tile groups, placement, polling."""

from typing import Any

from wavesim.plan.tile_groups import groups_of
from wavesim.predict.cluster_semaphores import placement_of
from wavesim.teaching.exercises import Exercise, number, pair, require, whole
from wavesim.teaching.waiting import PROTOCOLS, is_safe
from wavesim.workloads.gpt3 import gpt3_mlp

# A hand-over in round figures: the post's fence, the way by L2 and in a cluster, a look there and at home.
FENCE_NS, FAR_NS, NEAR_NS, FAR_LOOK_NS, NEAR_LOOK_NS = 600, 600, 100, 200, 20
SMS, TOKENS, FEW_TOKENS, CLUSTERS = 132, 1024, 768, (16, 8)
HINTS = {
    "a": "In whose scope is the other block?",
    "b": "Is the block that arrived within the wait's scope?",
    "d": "What does st.async publish besides its own word?",
}
POLL_BYTES, POLL_NS, L2_BYTES_PER_NS, WITHIN = 32, 150, 9_000, 0.02


def grade_hand_over(answer: Any) -> str:
    """Nanoseconds won per hand-over by moving the flag."""
    won = number(answer, "ns")
    way, look = FAR_NS - NEAR_NS, FAR_LOOK_NS - NEAR_LOOK_NS
    require(
        won != way + look + FENCE_NS,
        f"{won:g} ns would be with the fence gone too. The tile is still in global memory, and the post may "
        "not be seen before it.",
    )
    require(
        won not in (way, look),
        f"{won:g} ns is one part: both the way and the look become shorter.",
    )
    require(won == way + look, f"{won:g} ns? Write down fence, way and look before and after, and subtract.")
    return "The fence stays: it waits for the tile's stores, not for the flag's."


def grade_scopes(answer: Any) -> str:
    """The letters of the protocols that can only return the new tile."""
    letters = _letters(answer)
    wrong = sorted(one for one in letters if not is_safe(one))
    missing = sorted(one for one in PROTOCOLS if is_safe(one) and one not in letters)
    require(not wrong, f"{', '.join(wrong)} may return the old tile. {HINTS.get(''.join(wrong[:1]), '')}")
    require(not missing, f"of those left out {len(missing)} can only return the new tile.")
    return "Both ends name the cluster, and something orders the tile's store before the arrival."


def _letters(answer: Any) -> set[str]:
    if isinstance(answer, str):
        words = answer.casefold().replace(",", " ").split()
        answer = list(words[0]) if len(words) == 1 else words
    is_many = isinstance(answer, set | frozenset | list | tuple | dict)
    require(is_many, f"{answer!r}: give the letters of the protocols that are right, such as {{'a', 'b'}}.")
    found = {one.strip().casefold() if isinstance(one, str) else one for one in answer}
    unknown = [one for one in found if one not in PROTOCOLS]
    require(not unknown, f"{unknown[0] if unknown else ''!r} is none of {', '.join(PROTOCOLS)}.")
    return found


def grade_groups(answer: Any) -> str:
    """(tiles that must share a cluster, how many such groups)."""
    tiles, count = pair(answer, "tiles of a group, groups")
    groups = groups_of(gpt3_mlp(TOKENS))
    size = len(groups[0])
    require(
        whole(tiles, 1, 10**6) == size,
        f"{tiles} tiles? A tile of the second GEMM reads a whole row of the first. Which other tiles of the "
        "second GEMM read that row?",
    )
    require(
        whole(count, 1, 10**6) == len(groups),
        f"{count} groups? Two rows of tiles share nothing. How many rows are {TOKENS:,} tokens?",
    )
    return "24 tiles of the first GEMM and 48 of the second, in each of 8 rows."


def grade_placement(answer: Any) -> str:
    """SMs with work at 768 tokens with clusters of 16 and of 8."""
    pipeline = gpt3_mlp(FEW_TOKENS)
    for given, blocks in zip(pair(answer, "SMs with clusters of 16, of 8"), CLUSTERS, strict=True):
        placement = placement_of(pipeline, blocks, SMS)
        require(
            whole(given, 0, SMS) != placement.clusters * blocks,
            f"{given} SMs are in clusters of {blocks}. Is there a row for each cluster?",
        )
        require(
            given == placement.busy_sms,
            f"{given} SMs with clusters of {blocks}? Each row is in one cluster, and {FEW_TOKENS} tokens are "
            f"{placement.groups} rows.",
        )
    return "Without clusters every SM has a tile of some row."


def grade_polls(answer: Any) -> str:
    """Percent of the L2's bandwidth that polling takes."""
    percent = number(answer, "percent")
    bytes_per_ns = SMS * POLL_BYTES / POLL_NS
    truth = 100 * bytes_per_ns / L2_BYTES_PER_NS
    require(abs(100 * percent - truth) > WITHIN, f"{percent:g} is a share, and percent are asked for.")
    require(
        abs(percent - truth) <= WITHIN,
        f"{percent:g} %? {SMS} blocks, a look every {POLL_NS} ns, {POLL_BYTES} bytes each: how many bytes "
        "per ns are that, of 9,000?",
    )
    return "28 of 9,000 bytes per ns. Polling is slow for who waits, and nearly free for the others."


EXERCISES = (
    Exercise("22.1", "Nanoseconds won per hand-over by moving the flag into the cluster", grade_hand_over),
    Exercise("22.2", "Which of five protocols can only return the new tile", grade_scopes),
    Exercise("22.3", "Tiles that must share a cluster at 1,024 tokens, and how many groups", grade_groups),
    Exercise("22.4", "SMs with work at 768 tokens: (clusters of 16, clusters of 8)", grade_placement),
    Exercise("22.5", "Percent of the L2's bandwidth that 132 polling blocks take", grade_polls),
)
