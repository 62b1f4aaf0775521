"""Dispatch tables as files: what a serving engine reads, and what names from outside cannot do to them."""

import json
import runpy
from dataclasses import replace

import pytest

from wavesim.model.device import load
from wavesim.tuning.crossover.crossing import crossover_of
from wavesim.tuning.crossover.family import mlp_of
from wavesim.tuning.crossover.gains import ways_of
from wavesim.tuning.crossover.report import (
    crossover_picture,
    crossover_text,
    dispatch_json,
    dispatch_python,
    notes_of,
    write_crossover_page,
)


@pytest.fixture(scope="module")
def crossover():
    family = mlp_of("gpt3-145b", 8, (128, 256), "hopper")
    return crossover_of(family, load("h200"), (513, 896), ways=ways_of(("stream", "pdl", "pdl+row")))


@pytest.fixture
def loaded(tmp_path):
    def run(text):
        path = tmp_path / "plans.py"
        path.write_text(text)
        return runpy.run_path(str(path))

    return run


def test_the_module_gives_the_tables_plan_at_every_size(crossover, loaded):
    names = loaded(dispatch_python(crossover))
    for row in crossover.table:
        for m in (row.m_from, row.m_to):
            assert names["plan_for"](m) == row.way.name


@pytest.mark.parametrize("m", [512, 897, 0, -1])
def test_the_module_refuses_sizes_that_the_table_is_not_of(crossover, loaded, m):
    with pytest.raises(ValueError, match=rf"m is {m}; this table is of 513 to 896 rows"):
        loaded(dispatch_python(crossover))["plan_for"](m)


def test_both_files_say_what_they_rest_on(crossover):
    document, text = json.loads(dispatch_json(crossover)), dispatch_python(crossover)
    assert document["format"] == 1
    assert [(row["m_from"], row["plan"], row["order"]) for row in document["table"]] == [
        (513, "stream", "grouped:4"),
        (641, "pdl+row", "grouped:4"),
    ]
    for name in ("device", "basis", "history", "scored", "family"):
        assert name in document
        assert f"# {name}: " in text
    assert "products timed alone" in document["basis"]


def test_a_family_named_like_code_is_a_comment(crossover, loaded):
    hostile = replace(crossover, family='x"""\nimport os\nos.abort()\n#' + "\u2028raise\r1/0" * 40)
    assert loaded(dispatch_python(hostile))["plan_for"](600) == "stream grouped:4"
    assert all(line.startswith("#") for line in dispatch_python(hostile).splitlines()[:8])


def test_the_text_says_from_where_on_each_way_pays(crossover):
    text = crossover_text(crossover)
    assert "first M at which a plan gains 1 %: pdl+row 641" in text
    assert "never scored here" in text
    assert any(note.startswith("before: ") for note in notes_of(crossover))


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_picture_has_a_line_for_each_way_and_the_tables_ways_as_a_strip(crossover, theme):
    figure = crossover_picture(crossover, theme)
    assert [line.name for line in figure.data if line.name] == [way.name for way in crossover.ways]
    assert [(shape.x0, shape.x1) for shape in figure.layout.shapes] == [(512.5, 640.5), (640.5, 896.5)]
    dashes = {(line.line.color, line.line.dash) for line in figure.data if line.name}
    assert len(dashes) == len(crossover.ways)


def test_the_page_is_written_whole(crossover, tmp_path):
    write_crossover_page(crossover, tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text()
    assert "Gain over M" in text
    assert "pdl+row grouped:4" in text
