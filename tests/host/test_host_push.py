"""Sums that ranks push to each other, under ThreadSanitizer: right under skew, and each order is needed."""

import shutil

import pytest
from host_programs import run
from host_sources import build

CALLS = 600
WHOLE, FEW, SHARES, HALVES, SCATTERED = 5, 1, 2, 3, 4  # by the seed


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    if shutil.which("g++") is None:
        pytest.skip("no g++ with libtsan")
    return build("push", tmp_path_factory.mktemp("push"), "")


@pytest.mark.slow
@pytest.mark.parametrize("seed", [WHOLE, FEW, SHARES, HALVES, SCATTERED])
def test_ranks_that_are_held_up_get_the_right_sums_without_a_race(program, seed):
    result = run(program, CALLS, seed)
    assert (result.rounds, result.wrong, result.aborted, result.races) == (CALLS, 0, 0, ())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("seed", "dropped"),
    [
        (WHOLE, "store_release"),
        (WHOLE, "load_acquire"),
        (WHOLE, "push"),
        (WHOLE, "add"),
        (WHOLE, "second_parity"),
        (SHARES, "store_release"),
        (SHARES, "send_sums"),
        (SHARES, "take_sums"),
        (HALVES, "store_release"),
        (HALVES, "take_sums"),
        (SCATTERED, "load_acquire"),
        (SCATTERED, "push_halves"),
    ],
)
def test_each_order_that_is_dropped_is_reported(program, seed, dropped):
    assert run(program, CALLS, seed, dropped).races


@pytest.mark.slow
def test_few_outputs_of_two_calls_in_one_place_are_never_taken_for_each_other(program):
    result = run(program, CALLS, FEW, "second_parity")
    # A word of the next call came before this one's was read: the wait gives up, and no wrong sum is made.
    assert result.aborted
    assert not result.wrong


@pytest.mark.slow
@pytest.mark.parametrize("seed", [WHOLE, FEW, SHARES, HALVES, SCATTERED])
def test_a_rank_that_ends_hangs_no_other(program, seed):
    result = run(program, CALLS, seed, dropped="rank_1")
    assert (bool(result.aborted), result.wrong, result.races) == (True, 0, ())
    assert CALLS // 2 <= result.rounds <= CALLS // 2 + 2
