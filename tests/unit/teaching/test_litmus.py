"""Litmus tests: every outcome of two threads, with and without fences, releases and acquires."""

from itertools import permutations, product

import pytest

from wavesim import DescriptionError
from wavesim.teaching.litmus import (
    Litmus,
    fence,
    guide_test,
    load,
    may_pass,
    semaphore_test,
    store,
)
from wavesim.teaching.litmus_explorer import LitmusExplorer, litmus_table

OLD_WITH_NEW = (("A", 1), ("B", 20))


def thread_orders(operations):
    """Every order in which a thread may perform its operations, found by trying all permutations."""
    for order in permutations(range(len(operations))):
        pairs = [(i, j) for j in range(len(operations)) for i in range(j)]
        if all(order.index(i) < order.index(j) or may_pass(operations[i], operations[j]) for i, j in pairs):
            yield [operations[index] for index in order]


def interleavings(left, right):
    if not left or not right:
        yield [*left, *right]
        return
    yield from ([left[0], *rest] for rest in interleavings(left[1:], right))
    yield from ([right[0], *rest] for rest in interleavings(left, right[1:]))


def outcome_of(test, history):
    memory, registers = dict(test.memory), {}
    for operation in history:
        if operation.kind == "store":
            memory[operation.variable] = operation.value
        if operation.kind == "load":
            registers[operation.register] = memory[operation.variable]
    return tuple(sorted(registers.items()))


class TestLitmus:
    def test_every_interleaving_is_listed_once_under_its_outcome(self):
        test = guide_test()
        accesses = [[f"{name}: {op}" for op in operations] for name, operations in test.threads.items()]
        listed = [order for orders in test.orders(reorder=False).values() for order in orders]
        assert sorted(listed) == sorted(tuple(order) for order in interleavings(*accesses))
        for outcome, orders in test.orders().items():
            assert len(orders) == 6, outcome

    def test_fences_are_no_accesses_and_halve_the_orders(self):
        fenced = (guide_test(writer_fence=True), guide_test(writer_fence=True, reader_fence=True))
        for test, count in zip(fenced, (12, 6), strict=True):
            listed = [order for orders in test.orders().values() for order in orders]
            assert len(listed) == len(set(listed)) == count
            assert all(len(order) == 4 for order in listed)
            assert list(test.orders()) == list(test.outcomes())

    @pytest.mark.parametrize("writer_fence", [False, True])
    @pytest.mark.parametrize("reader_fence", [False, True])
    def test_only_both_fences_together_forbid_it(self, writer_fence, reader_fence):
        found = guide_test(writer_fence=writer_fence, reader_fence=reader_fence).outcomes()
        assert (OLD_WITH_NEW in found) == (not (writer_fence and reader_fence))
        assert len(found) == 4 - (writer_fence and reader_fence)

    @pytest.mark.parametrize("release", [False, True])
    @pytest.mark.parametrize("acquire", [False, True])
    def test_only_release_and_acquire_together_hand_the_tile_over(self, release, acquire):
        found = semaphore_test(release=release, acquire=acquire).outcomes()
        assert ((("read", 0),) in found) == (not (release and acquire))
        assert (("read", 42),) in found

    @pytest.mark.parametrize("writer_fence", [False, True])
    def test_the_outcomes_agree_with_trying_all_permutations(self, writer_fence):
        test = guide_test(writer_fence=writer_fence)
        first, second = (list(thread_orders(operations)) for operations in test.threads.values())
        histories = (h for ours, theirs in product(first, second) for h in interleavings(ours, theirs))
        assert {outcome_of(test, history) for history in histories} == set(test.outcomes())

    def test_bad_tests_are_refused(self):
        with pytest.raises(DescriptionError, match="at most 12"):
            Litmus({"a": [fence()] * 13}, {})
        with pytest.raises(DescriptionError, match="not in"):
            Litmus({"a": [store("z", 1)]}, {"x": 0})
        with pytest.raises(DescriptionError, match="give every load its own"):
            Litmus({"a": [load("r", "x"), load("r", "x")]}, {"x": 0})

    def test_the_explorer_follows_its_switches(self):
        explorer = LitmusExplorer()
        assert explorer.table.value.count("impossible") == 1
        explorer.reorder.value = True
        assert "impossible" not in explorer.table.value
        explorer.first.value = explorer.second.value = True
        assert explorer.table.value.count("impossible") == 1
        explorer.test.value = "semaphore"
        assert "post is a release" in explorer.first.description
        assert litmus_table(semaphore_test()).count("● possible") == 2
