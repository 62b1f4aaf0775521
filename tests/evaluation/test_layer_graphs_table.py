"""Speedups of a `layer_graphs` run, by hand."""

import pytest

from wavesim.evaluation.layer_graphs_table import ratios, summary, table_text


def case(kind, name, **times):
    finalists = [
        {"class": one.replace("_", " "), "label": one, "median_ns": ns, "quartiles_ns": [ns - 1, ns + 1]}
        for one, ns in times.items()
    ]
    return {"kind": kind, "name": name, "finalists": finalists}


LAYER = case("layer", "a", torch=200, stream=190, pdl=160, semaphores=180)
CHAIN = case("chain", "b", torch=90, stream=110, pdl=99, semaphores=100)
FAILED = {"kind": "layer", "name": "c", "failed": "no room"}


def test_a_ratio_is_the_other_s_time_over_our_fastest_and_failed_cases_are_left_out():
    assert ratios([LAYER, FAILED], "torch") == {"a": 200 / 160}
    assert ratios([CHAIN], "stream", only="semaphores") == {"b": 110 / 100}


def test_a_summary_asks_each_question_of_its_kind_of_cases():
    found = summary([LAYER, CHAIN, FAILED])
    assert found["layer over PyTorch"] == {"a": 1.25}
    assert found["chain, semaphores over dependent launch"] == {"b": pytest.approx(0.99)}
    assert found["product over cuBLASLt"] == {}


def test_a_table_names_device_commit_and_what_failed():
    text = table_text(
        {"device": {"name": "X"}, "date": "2026-11-22T", "commit": "abcdefghij", "cases": [LAYER, FAILED]}
    )
    assert text.startswith("Measured on X, 2026-11-22, commit abcdefg.")
    assert "| layer over PyTorch | 1 | 1.250 | 1.250 | 1.250 |" in text
    assert "| c | failed | no room | | |" in text
