"""The hangs of `wavesim/safety/hang/cases`, public and invented: what each explanation names."""

from pathlib import Path

import pytest

from wavesim.safety.hang.answer import HangAnswer
from wavesim.safety.hang.situation_file import load_situation
from wavesim.safety.hang.verdict import judge

CASES = Path(__file__).parents[4] / "wavesim" / "safety" / "hang" / "cases"
# By file: whether it hangs for certain, and what the explanation has to say.
EXPLAINED = {
    "mpk-775": (
        False,
        "68 of 128 blocks of workers find room on the 148 SMs of gpu0 (1 per SM, limited by shared memory)",
        "80 of 80 blocks of schedulers hold 80 of 148 SMs",
        "workers has no room beside schedulers; schedulers waits for workers",
        "launch schedulers once all blocks of workers have started",
    ),
    "mpk-762": (
        False,
        "132 of 144 blocks of workers find room",
        "16 of 16 blocks of schedulers hold 16 of 148 SMs",
    ),
    "flashmoe-3": (True, "78 of 132 blocks of moe find room on the 78 SMs", "their own grid"),
    "cutlass-3143": (
        True,
        "all-reduce of rank 1 hold 128 of 148 SMs",
        "final barrier on rank 1 reaches 256; all posts there are bring it to 128",
    ),
    "triton-distributed-79": (True, "ranks that are gathered reaches 8; all posts there are bring it to 2"),
    "fleet-6": (True, "chunks of the sequence reaches 64; all posts there are bring it to 32"),
    "collectives-in-different-order": (
        True,
        "all-reduce, rank 1 has not been issued: it stands behind all-gather, rank 1 on stream comm",
        "all-gather, rank 0 has not been issued: it stands behind all-reduce, rank 0 on stream comm",
    ),
    "collectives-without-room": (
        False,
        "reduce, rank 1 has no room beside gather, rank 1",
        "gather, rank 0 has no room beside reduce, rank 0",
    ),
    "grid-barrier": (True, "264 of 265 blocks of solver", "2 per SM, limited by warps"),
    "cooperative-too-large": (
        True,
        "CUDA refuses the cooperative launch of solver: 265 blocks",
        "264 at once",
    ),
    "consumer-first": (
        False,
        "132 of 384 blocks of gemm2 hold 132 of 132 SMs",
        "their row of gemm1",
        "it does not if blocks issue oldest launch first",
        "launch gemm2 once all blocks of gemm1 have started",
    ),
    "dependent-launch-backwards": (True, "it comes once all blocks of consumer have started"),
    "low-priority-producer": (
        False,
        "it also can if blocks issue oldest launch first and higher priority first",
        "a block that is resident stays until it ends",
        "producer has no room beside consumer",
    ),
    "mps-at-50-percent": (
        True,
        "66 of 132 blocks of decode find room on the 66 SMs",
        "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE = 50",
    ),
    "green-context": (True, "16 of 24 blocks of all-reduce", "communication: h100, 16 SMs, green context"),
    "later-in-the-same-stream": (True, "it stands behind waiter on stream s"),
    "legacy-default-stream": (
        True,
        "the legacy default stream puts it behind norm",
        "the legacy default stream puts it behind consumer",
        "cudaStreamNonBlocking",
    ),
    "host-callback": (False, "host function reader is done stands behind another one"),
    "host-synchronises": (True, "the host waits for the end of consumer before it launches it"),
    "missing-post": (True, "row 7 reaches 24; all posts there are bring it to 23"),
    "double-wait": (True, "second consumer hold", "ready reaches 48; all posts there are bring it to 24"),
    "more-streams-than-queues": (False, "more streams than hardware queues of gpu0"),
}


def answer_to(name):
    return HangAnswer(judge(load_situation(CASES / f"{name}.toml")))


def test_every_case_is_explained():
    assert {path.stem for path in CASES.glob("*.toml")} == set(EXPLAINED)


@pytest.mark.parametrize("name", EXPLAINED)
def test_the_explanation_names_the_cause(name):
    answer = answer_to(name)
    is_certain, *phrases = EXPLAINED[name]
    text = "\n".join(answer.lines)
    assert answer.verdict.can_hang
    assert answer.verdict.is_certain == is_certain
    assert [phrase for phrase in phrases if phrase not in text] == []


def test_mpk_775_comes_from_the_launch_configurations_alone():
    found = answer_to("mpk-775").as_json()
    assert found["can_deadlock"] is True
    assert {one["operation"]: (one["blocks"], one["of"], one["sms"]) for one in found["holders"]} == {
        "workers": (68, 128, 68),
        "schedulers": (80, 80, 80),
    }
    assert found["starved"] == [{"operation": "workers", "device": "gpu0", "blocks": 68, "of": 128}]
