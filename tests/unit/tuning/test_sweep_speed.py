"""What a sweep costs beside its simulations, in CPU time, which other programs do not change."""

import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace

import pytest

from wavesim.model.device import load
from wavesim.tuning import batches
from wavesim.tuning.search import Search
from wavesim.workloads.catalogue import workload

PLANS = 50_000
MOST_US = 60  # per plan: 10 was measured; a toy plan simulates in 500, one of GPT-3's MLP in 17,000
MOST_PREPARING_US = 1_000  # of writing a plan down and telling it from others; 240 was measured


def trivial(batch):
    """Answers without simulating."""
    return [0] * len(batch)


@pytest.fixture(scope="module")
def search():
    search = Search({"": workload("gpt3-mlp", 2048, (128, 256))}, load("h200"), None, None)
    search.predicted_ns = {question.key: 10**9 for question in search.stream_questions()}
    return search


@pytest.mark.slow
@pytest.mark.alone
def test_handing_fifty_thousand_plans_to_two_workers_costs_microseconds_each(search):
    some = search.other_questions()
    questions = [replace(some[i % len(some)], key=f"{i}") for i in range(PLANS)]
    with ProcessPoolExecutor(2) as pool:
        list(pool.map(abs, (1, 2)))  # the processes are there
        began = time.process_time()
        finished = batches.answered(trivial, batches.in_batches(questions), pool, [])
        count = sum(len(answers) for _, answers in finished)
        per_plan_us = 1e6 * (time.process_time() - began) / PLANS
    assert count == PLANS
    assert per_plan_us < MOST_US


@pytest.mark.slow
@pytest.mark.alone
def test_preparing_a_plan_costs_a_small_part_of_simulating_it(search):
    fresh = Search({"": search.books[""].pipeline}, load("h200"), None, None)
    fresh.predicted_ns = dict(search.predicted_ns)
    began = time.process_time()
    questions = fresh.other_questions()
    assert len(questions) > 500
    assert 1e6 * (time.process_time() - began) / len(questions) < MOST_PREPARING_US
