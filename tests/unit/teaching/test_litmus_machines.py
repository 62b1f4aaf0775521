"""The notebooks' machine and the PTX memory model: the same for message passing; where PTX allows more."""

from itertools import product

import pytest

from wavesim.litmus import LitmusTest, LitmusThread, outcomes
from wavesim.teaching.litmus import Litmus, Operation, fence, guide_test, load, semaphore_test, store

SWITCHES = list(product((False, True), repeat=2))


def in_ptx(test: Litmus) -> LitmusTest:
    """The same threads, a block each, in instructions."""
    return LitmusTest(
        tuple(
            LitmusThread(name, f"gpu0.cta{number}", tuple(map(instruction, operations)))
            for number, (name, operations) in enumerate(test.threads.items())
        ),
        test.memory,
    )


def instruction(operation: Operation) -> str:
    at = f"[{operation.variable}]"
    return {
        "store": f"st.relaxed.gpu {at}, {operation.value}",
        "load": f"ld.relaxed.gpu {operation.register}, {at}",
        "fence": "fence.acq_rel.gpu",
        "post": f"red.{'release' if operation.is_ordered else 'relaxed'}.gpu.add {at}, 1",
        "wait": f"wait ld.{'acquire' if operation.is_ordered else 'relaxed'}.gpu {at} >= {operation.value}",
    }[operation.kind]


@pytest.mark.parametrize(("first", "second"), SWITCHES)
def test_message_passing_has_the_same_outcomes_in_both(first, second):
    for test in (
        guide_test(writer_fence=first, reader_fence=second),
        semaphore_test(release=first, acquire=second),
    ):
        assert set(test.outcomes()) == outcomes(in_ptx(test))


def test_two_readers_agree_on_the_machine_and_need_not_in_ptx():
    readers = {
        "one": [load("a", "X"), fence(), load("b", "Y")],
        "other": [load("c", "Y"), fence(), load("d", "X")],
    }
    test = Litmus({"x": [store("X", 1)], "y": [store("Y", 1)], **readers}, {"X": 0, "Y": 0})
    disagreeing = (("a", 1), ("b", 0), ("c", 1), ("d", 0))
    assert disagreeing not in test.outcomes()
    assert disagreeing in outcomes(in_ptx(test))
    assert set(test.outcomes()) <= outcomes(in_ptx(test))
