"""The page of the paper's attention says what its files hold."""

import json

import pytest

from wavesim.errors import RecordingError
from wavesim.evaluation import paper_attention_page as page
from wavesim.evaluation.paper_attention_cases import PLANS, cases
from wavesim.workloads.attention_chain import paper_attention


def made_up(tmp_path, monkeypatch):
    """A prompt, 100 us under stream sync, simulated as 80 us."""
    case = {
        "model": "gpt3",
        "tokens": 512,
        "sequences": 1,
        "keys": 512,
        "backend": "portable",
        "has_softmax": True,
    }
    words = PLANS["portable"]
    measured = [{"plan": word, "median_us": us} for word, us in zip(words, (100.0, 97.0, 104.0), strict=True)]
    said = [{"plan": word, "simulated_us": us} for word, us in zip(words, (80.0, 76.0, 72.0), strict=True)]
    monkeypatch.setattr(page, "FOLDER", tmp_path)
    monkeypatch.setattr(page, "PREDICTIONS", tmp_path / "predictions.json")
    (tmp_path / "predictions.json").write_text(json.dumps({"cases": [{**case, "plans": said}]}))
    top = {"device": "a GPU", "date": "2026-01-02T03:04", "commit": "abcdef123", "rounds": 20}
    (tmp_path / "2026-01-02.json").write_text(json.dumps({**top, "cases": [{**case, "plans": measured}]}))


def test_the_page_is_what_its_command_writes():
    text = page.PAGE.read_text()
    assert page.with_block(text, page.block()) == text


def test_gains_are_of_stream_sync_and_what_was_simulated_stands_beside(tmp_path, monkeypatch):
    made_up(tmp_path, monkeypatch)
    block = page.block()
    assert "One a GPU, 2026-01-02, commit abcdef1, 20 rounds." in block
    assert "| GPT-3 | 512 | 512 | 100.0 (80) | +3.0 (+5.0) | -4.0 (+10.0) |" in block
    assert "Best plan: +3.0 to +3.0 %" in block
    assert "stream sync takes 0.80 to 0.80 of its measured time" in block
    assert (
        "off by 8.0 points (median) and 12.8 (90 %); of 2 of a point or more the sign is right in 1." in block
    )


def test_without_a_measurement_the_page_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(page, "FOLDER", tmp_path)
    assert page.block() == page.UNMEASURED


def test_a_page_without_marks_is_refused():
    with pytest.raises(RecordingError, match="paper attention: begin"):
        page.with_block("no marks", "block")


def test_the_cases_are_those_of_the_papers_figure():
    found = list(cases())
    own = {(case.model, case.tokens, case.keys) for case in found if case.has_softmax}
    prompts = {(model, tokens, tokens) for model in ("gpt3", "llama") for tokens in (512, 1024, 2048)}
    steps = {
        (model, batch, keys)
        for model in ("gpt3", "llama")
        for batch in (1, 2, 4)
        for keys in (512, 1024, 2048)
    }
    assert own == prompts | steps
    for case in found[:3]:
        assert case.pipeline().stages[0].gemm.m == case.tokens


def test_the_workload_named_on_the_page_is_there():
    text = page.PAGE.read_text()
    assert "paper_attention(4, cached=1023, sequences=4)" in text
    assert paper_attention(4, cached=1023, sequences=4).stage("scores").work.keys == 1024
