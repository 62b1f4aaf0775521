"""The blind run of layers: its cases, its files, its scores."""

import json

import pytest

from wavesim.errors import RecordingError
from wavesim.evaluation.layer_blind_cases import (
    BlindLayerCase,
    all_cases,
    second_cases,
    third_cases,
    trial_cases,
)
from wavesim.evaluation.layer_blind_runs import (
    LayerBlindRun,
    LayerPrediction,
    copy_registered,
    write_registered,
)
from wavesim.evaluation.layer_blind_scores import scores_of


def test_there_are_at_least_sixty_cases_and_none_of_them_is_one_of_the_trial():
    cases = all_cases()
    assert len({case.name for case in cases}) == len(cases) >= 60
    assert not set(cases) & set(trial_cases())
    assert len(second_cases()) >= 60
    assert not set(second_cases()) & {*cases, *trial_cases()}
    assert len(third_cases()) >= 64
    assert not set(third_cases()) & {*cases, *second_cases(), *trial_cases()}
    sizes = {(case.model, case.tokens) for case in cases if case.kind != "decode"}
    assert not sizes & {(case.model, case.tokens) for case in trial_cases() if case.kind != "decode"}


@pytest.mark.parametrize(
    "kind", ["chain", "into", "from", "norm", "layer", "decode", "chained", "chained-layer"]
)
def test_a_case_is_a_pipeline_whose_stages_name_their_backends(kind):
    case = BlindLayerCase(kind, "qwen2.5-0.5b", 16 if kind == "decode" else 512)
    assert all(stage.backend for stage in case.pipeline().stages)
    assert case.is_chained == any(stage.backend == "hopper-chained" for stage in case.pipeline().stages)
    assert case.plan("pdl+tile", "reversed:row").order_of("attention").name == "reversed:row"


def made_run(folder):
    """Two cases: of one pdl gains 4 % and was said to gain 3; of the other it gains nothing, as was said."""
    found = [
        LayerPrediction("chain gpt3-145b 512", "row", "stream", 100_000, 0.0),
        LayerPrediction("chain gpt3-145b 512", "row", "pdl", 97_000, 3.0),
        LayerPrediction("layer gpt3-145b 512", "row", "stream", 206_000, 0.0),
        LayerPrediction("layer gpt3-145b 512", "row", "pdl", 206_000, 0.0),
    ]
    for basis in ("costs", "trace"):
        write_registered(folder, basis, found, {"commit": "0"})
    times = {"chain gpt3-145b 512": (100_000, 96_000), "layer gpt3-145b 512": (200_000, 199_000)}
    lines = [
        {
            "case": case,
            "rounds": [
                {"order": "row", "plan": plan, "ns": [ns] * 3}
                for plan, ns in zip(("stream", "pdl"), both, strict=True)
            ],
        }
        for case, both in times.items()
    ]
    (folder / "rounds.jsonl").write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    (folder / "run.json").write_text('{"said_points": 1.25}', encoding="utf-8")
    return LayerBlindRun(folder)


def test_scores_are_those_of_hand_made_rounds(tmp_path):
    scores = scores_of(made_run(tmp_path), "costs")
    assert (scores.gains, scores.gain_median) == (1, pytest.approx(1.0))
    assert (scores.layers, scores.layer_median) == (1, pytest.approx(3.0))
    assert (scores.signs, scores.sign_right) == (1, 100.0)
    assert (scores.nothings, scores.nothing_right, scores.nothing_wrong) == (1, 100.0, 0.0)


def test_predictions_are_written_once_and_a_changed_file_is_refused(tmp_path):
    run = made_run(tmp_path)
    with pytest.raises(RecordingError, match="written once"):
        write_registered(tmp_path, "costs", [], {})
    path = tmp_path / "costs.json"
    path.write_text(path.read_text(encoding="utf-8").replace("97000", "96000"), encoding="utf-8")
    with pytest.raises(RecordingError, match="it was changed"):
        run.predictions("costs")
    with pytest.raises(RecordingError, match="it was changed"):
        copy_registered(tmp_path, tmp_path / "copy", "costs")
