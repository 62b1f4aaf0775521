"""Words between two GPUs, under ThreadSanitizer: sums are right under skew, and each order is needed."""

import shutil

import pytest
from host_programs import run
from host_sources import build

CALLS = 600
TWO_SHOT, ONE_SHOT, EXCHANGE = 2, 1, 3  # by the seed


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    if shutil.which("g++") is None:
        pytest.skip("no g++ with libtsan")
    return build("two_gpus", tmp_path_factory.mktemp("two_gpus"), "")


@pytest.mark.slow
@pytest.mark.parametrize("seed", [TWO_SHOT, ONE_SHOT, EXCHANGE])
def test_ranks_that_are_held_up_add_the_right_tiles_without_a_race(program, seed):
    result = run(program, CALLS, seed)
    assert (result.rounds, result.wrong, result.aborted, result.races) == (CALLS, 0, 0, ())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("seed", "dropped"),
    [
        (TWO_SHOT, "store_release"),
        (TWO_SHOT, "load_acquire"),
        (TWO_SHOT, "wait_for_sources"),
        (TWO_SHOT, "post_finished"),
        (ONE_SHOT, "store_release"),
        (ONE_SHOT, "second_parity"),
        (EXCHANGE, "store_release"),
        (EXCHANGE, "load_acquire"),
    ],
)
def test_each_order_between_gpus_that_is_dropped_is_reported(program, seed, dropped):
    assert run(program, CALLS, seed, dropped).races


@pytest.mark.slow
@pytest.mark.parametrize("seed", [TWO_SHOT, ONE_SHOT, EXCHANGE])
def test_a_rank_that_ends_hangs_no_other(program, seed):
    result = run(program, CALLS, seed, dropped="rank_1")
    # The other gives up in the call after: a record says so, and nothing wrong was read before.
    assert (result.aborted, result.wrong, result.races) == (1, 0, ())
    assert CALLS // 2 <= result.rounds <= CALLS // 2 + 2
