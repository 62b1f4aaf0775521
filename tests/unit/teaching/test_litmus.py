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
    post,
    semaphore_test,
    store,
    wait,
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
    def test_interleaving_alone_never_shows_new_y_with_old_x(self):
        found = guide_test().outcomes(reorder=False)
        assert list(found) == [(("A", 1), ("B", 2)), (("A", 10), ("B", 2)), (("A", 10), ("B", 20))]

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

    def test_orders_of_a_long_test_are_not_listed(self):
        stores = {name: [store("X", 1)] * 5 for name in "ab"}
        with pytest.raises(DescriptionError, match="10 operations; orders are listed of at most 8"):
            Litmus(stores, {"X": 0}).orders()

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

    def test_an_outcome_comes_with_an_order_that_leads_to_it(self):
        for outcome, history in guide_test().outcomes().items():
            memory, registers = {"X": 1, "Y": 2}, {}
            for step in history:
                target, value = step.split(": ")[1].split(" = ")
                if value in memory:
                    registers[target] = memory[value]
                else:
                    memory[target] = int(value)
            assert tuple(sorted(registers.items())) == outcome

    def test_an_outcome_that_interleaving_has_is_shown_in_program_order(self):
        plain = guide_test().outcomes(reorder=False)
        assert {outcome: guide_test().outcomes()[outcome] for outcome in plain} == plain

    def test_what_may_pass_what(self):
        data, other = store("tile", 1), load("r", "flag")
        assert may_pass(data, other)
        assert not may_pass(data, load("r", "tile"))
        assert not may_pass(data, fence())
        assert not may_pass(fence(), other)
        assert not may_pass(data, post("s", release=True))
        assert may_pass(post("s", release=True), other)
        assert not may_pass(wait("s", 1, acquire=True), other)
        assert may_pass(data, wait("s", 1, acquire=True))

    @pytest.mark.parametrize("writer_fence", [False, True])
    def test_the_outcomes_agree_with_trying_all_permutations(self, writer_fence):
        test = guide_test(writer_fence=writer_fence)
        first, second = (list(thread_orders(operations)) for operations in test.threads.values())
        histories = (h for ours, theirs in product(first, second) for h in interleavings(ours, theirs))
        assert {outcome_of(test, history) for history in histories} == set(test.outcomes())

    def test_a_wait_for_posts_that_never_come_has_no_outcome(self):
        test = Litmus({"consumer": [wait("s", 1, acquire=True), load("r", "t")]}, {"s": 0, "t": 0})
        assert test.outcomes() == {}

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
