"""What is said and drawn of `layers` results: every number from the file, misses and failures named."""

import json
import re

import pytest
from made_up_layers import MODELS, case, made_up, written

from wavesim.errors import RecordingError
from wavesim.evaluation import layer_page
from wavesim.evaluation.layer_figure import speeds_figure
from wavesim.evaluation.layer_page import (
    BEGIN,
    END,
    UNMEASURED,
    Page,
    block_of,
    full_block,
    main,
    short_block,
    with_block,
)
from wavesim.evaluation.layer_results import AS_STORED, load_layers, newest_layers, summary_lines

SHAPES = sum(map(len, MODELS.values()))


def loaded(tmp_path, *speeds, **changes):
    return load_layers(written(tmp_path / "made-up.json", made_up(speeds, **changes)))


def test_a_speed_is_the_best_forms_median_over_ours(tmp_path):
    layers = loaded(tmp_path, (1.05, 1.1))
    row = layers.of("Llama 3 8B")[0]
    assert row.torch.name == "torch packed"
    assert row.speed("mlp").value == pytest.approx(1.05, abs=1e-4)
    assert layers.summary("mlp tuned").best == pytest.approx(1.1, abs=1e-4)


def test_slow_shapes_are_named_and_counted(tmp_path):
    layers = loaded(tmp_path, (0.9, 1.0), (1.0, 0.97))
    assert "Llama 3 8B M=1 0.900 (first choice), Llama 3 8B M=100 0.970" in full_block(layers).replace(
        "\n", " "
    )
    assert "shapes below 0.98: 1 (first choice), 1 (tuned)." in short_block(layers).replace("\n", " ")
    assert "worst at Llama 3 8B M=1" in summary_lines(layers)[0]


def test_a_shape_without_our_result_has_no_speed_and_is_counted(tmp_path):
    content = made_up()
    for one in content["cases"]:
        if (one["tokens"], one["name"]) == (512, "mlp"):
            one |= {"rounds_ns": [], "failed": "DeviceError: <b>no</b>\nway"}
        if (one["tokens"], one["name"]) == (2048, "mlp"):
            one["verdict"] = {"is_good": False}
    layers = load_layers(written(tmp_path / "made-up.json", content))
    text = full_block(layers)
    assert len(layers.speeds("mlp")) == SHAPES - 2
    assert f"Shapes without a speed of the first choice: {40 - SHAPES + 2} of 40" in text.replace("\n", " ")
    assert "- Llama 3 8B M=512, mlp: DeviceError: &lt;b&gt;no&lt;/b&gt;?way" in text
    assert "- GPT-3 175B, 8 GPUs M=2048, mlp: wrong result" in text


def test_the_tables_hold_every_model_all_of_them_and_host_times(tmp_path):
    layers = loaded(tmp_path)
    lines = full_block(layers).splitlines()
    stored, tuned = "1.050 | 1.092 (1.092 to 1.092)", "1.040 (1.040 to 1.040)"
    for model, sizes in MODELS.items():
        (line,) = (line for line in lines if line.startswith(f"| {model} |"))
        assert line == f"| {model} | {len(sizes)} | {stored} | 1.000 | {tuned} |"
    assert f"| all | {SHAPES} | {stored} | 1.000 | {tuned} |" in lines
    assert "Speed of first choice over cuBLASLt alone 1.000" in " ".join(lines)
    assert "| `mlp`, first choice | 5.0 | 5.0 |" in lines
    assert "| torch eager | 9.0 | 9.0 |" in lines


def test_registered_gains_of_our_kernels_are_compared_with_measured_ones(tmp_path):
    said = " ".join(full_block(loaded(tmp_path)).split())
    assert (
        "registered before: off by 1.0 points (median of 6 shapes, 1.0 at most). - Our kernels were" in said
    )
    assert "faster than cuBLASLt at 6 shapes, as expected at 6 of these" in said
    content = made_up()
    content["registered"]["choices"] = [{"name": "Llama 3 8B M=1", "failed": "ImportError: no"}]
    layers = load_layers(written(tmp_path / "other.json", content))
    assert layers.predicted == {}
    assert "registered before" not in full_block(layers)


def test_first_calls_and_a_second_process_are_told(tmp_path):
    text = " ".join(full_block(loaded(tmp_path)).split())
    assert "took 20.0 ms beyond compilation (median; 20.0 at most)" in text
    assert f"A second process compiled 0 kernels for {SHAPES} known shapes." in text


def test_the_picture_has_a_panel_for_each_model_and_both_marks(tmp_path):
    figure = speeds_figure(loaded(tmp_path, (0.9, 1.1)))
    names = {trace.name for trace in figure.data if len(trace.x or ())}
    assert {"faster after tuning", "first choice"} <= names
    texts = " ".join(str(note.text) for note in figure.layout.annotations)
    for model in MODELS:
        assert model in texts
    assert "1.050 after tuning" in figure.layout.title.text


def test_untuned_results_are_drawn_by_the_first_choice(tmp_path):
    content = made_up()
    content["cases"] = [one for one in content["cases"] if one["name"] != "mlp tuned"]
    figure = speeds_figure(load_layers(written(tmp_path / "made-up.json", content)))
    assert "after tuning" not in " ".join(trace.name for trace in figure.data)
    assert "tuning" not in figure.layout.title.text


def test_without_a_speed_there_is_no_picture(tmp_path):
    content = made_up(cases=[case("Llama 3 8B", 1, "torch eager", 1000)])
    with pytest.raises(RecordingError, match="mlp was measured beside no form of torch"):
        speeds_figure(load_layers(written(tmp_path / "made-up.json", content)))


@pytest.mark.parametrize("field", ["registered", "shapes_sha256", "first_calls_of_second_process"])
def test_a_file_without_a_field_is_refused_and_names_it(tmp_path, field):
    content = made_up()
    del content[field]
    with pytest.raises(RecordingError, match=f"'{field}' is missing"):
        load_layers(written(tmp_path / "made-up.json", content))


@pytest.mark.parametrize(
    "damage",
    [
        {"first_calls_of_second_process": [7]},
        {"first_calls_of_second_process": [{"name": "x", "ms": "long", "compilations": 0}]},
        {"registered": {"sha256": "6", "choices": ["x"]}},
        {"registered": {"sha256": "6", "choices": [{"name": "x", "library_ns": [], "ours_ns": 1}]}},
        {"registered": []},
        {"cases": [case("x", 1, "mlp", 1000, host_ns=-1)]},
        {"cases": [case("x", 1, "mlp", 1000, first_call={"ms": None})]},
        {"cases": [case("x", 1, "mlp", 1000, same_as=3)]},
        {"cases": [3]},
    ],
    ids=range(9),
)
def test_damaged_entries_are_refused_in_one_line(tmp_path, damage):
    with pytest.raises(RecordingError, match=r"made-up\.json") as error:
        load_layers(written(tmp_path / "made-up.json", made_up(**damage)))
    assert "\n" not in str(error.value)


@pytest.fixture
def pages(tmp_path, monkeypatch):
    """Two pages with marks in a folder of their own."""
    readme, page = tmp_path / "README.md", tmp_path / "docs" / "page.md"
    page.parent.mkdir()
    for path in (readme, page):
        path.write_text(f"before\n\n{BEGIN}\nold\n{END}\n\nafter\n")
    monkeypatch.setattr(layer_page, "ROOT", tmp_path)
    monkeypatch.setattr(layer_page, "PAGES", (Page(readme, short_block), Page(page, full_block)))
    return readme, page


def test_blocks_and_pictures_are_written_from_the_newest_file(pages, tmp_path, monkeypatch):
    folder, drawn = tmp_path / "gpu" / "results" / "layers", []
    folder.mkdir(parents=True)
    written(folder / "2026-01-01.json", {})
    written(folder / "2026-01-02.json", made_up())
    monkeypatch.setattr(layer_page, "save_figure", lambda figure, path: drawn.append(path.name))
    assert main([]) == 0
    layers = load_layers(newest_layers(folder))
    assert [block_of(path.read_text()) for path in pages] == [short_block(layers), full_block(layers)]
    assert all(re.fullmatch(r"before\n\n.*\n\nafter\n", path.read_text(), re.DOTALL) for path in pages)
    assert drawn == ["results-layers-light.svg", "results-layers-dark.svg"]


def test_without_a_file_the_blocks_say_so(pages):
    assert main([]) == 0
    assert [block_of(path.read_text()) for path in pages] == [UNMEASURED, UNMEASURED]


def test_a_damaged_file_or_page_is_told_in_one_line(pages, tmp_path, capsys):
    damaged = tmp_path / "damaged.json"
    damaged.write_text(json.dumps({"device": {}}))
    assert main(["--results", str(damaged)]) == 2
    pages[0].write_text("no marks")
    assert main([]) == 2
    assert capsys.readouterr().err.count("\n") == 2
    with pytest.raises(RecordingError, match="has no lines"):
        with_block(f"{END} {BEGIN}", "block")


def test_weights_as_stored_and_packed_ones_are_told_apart(tmp_path):
    path = written(tmp_path / "made-up.json", made_up([(1.05, 1.1)]))
    alone = load_layers(path)
    row = alone.of("Llama 3 8B")[0]
    assert row.torch_as_stored.name in {"torch eager", "torch compiled"}
    assert row.speed("mlp", AS_STORED).value > row.speed("mlp").value
    assert "With packed weights for both" not in full_block(alone)
    (tmp_path / "packed").mkdir()
    written(tmp_path / "packed" / "made-up.json", made_up([(1.01, 1.02)]))
    both = load_layers(path)
    said = full_block(both).replace("\n", " ")
    assert f"With packed weights for both, {SHAPES} shapes: " in said
    assert f"tuned {both.packed.summary('mlp tuned')}." in said
