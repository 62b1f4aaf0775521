"""The page docs/why-hang.md has every field, the committed counts, and the example as it is printed."""

import json
import re
import tomllib
from pathlib import Path

import pytest

from wavesim.safety.hang.answer import HangAnswer
from wavesim.safety.hang.situation_file import load_situation, situation_of
from wavesim.safety.hang.situation_tables import fields_of
from wavesim.safety.hang.verdict import judge
from wavesim.work.description.fields import fields_table

ROOT = Path(__file__).parents[4]
PAGE = (ROOT / "docs" / "why-hang.md").read_text(encoding="utf-8")
COUNTS = json.loads((ROOT / "tests" / "data" / "hang" / "counts.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("section", ["top", "devices", "operations", "waits", "semaphores", "posts"])
def test_the_page_has_the_fields_of_each_table(section):
    assert fields_table(fields_of(section)) in PAGE


def counts_table():
    head = ("assumed", "cases", "can hang", "of these called safe", "cannot hang", "of these refused")
    lines = [head, tuple("---" for _ in head)]
    for rule, found in COUNTS.items():
        if rule == "certain":
            continue
        shares = f"{found['safe_refused']} ({found['safe_refused_share']:.1%})"
        numbers = (found["cases"], found["unsafe"], found["unsafe_called_safe"], found["safe"])
        lines.append((rule, *(f"{number:,}" for number in numbers), shares))
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def test_the_page_has_the_committed_counts():
    assert counts_table() in PAGE


def test_the_page_says_how_often_a_certain_hang_is_known():
    found = COUNTS["certain"]
    known = found["unsafe"] - found["unsafe_called_safe"]
    assert found["safe_refused"] == 0
    text = f"Of {found['unsafe']:,} situations that have no way to the end {known:,} were said to hang"
    assert text in PAGE


def test_the_page_says_what_the_cases_have():
    text = re.sub(r"\s+", " ", PAGE)
    for trait, count in COUNTS["order"]["of_them"].items():
        assert f"{count:,}" in text, trait


def test_the_page_shows_what_is_printed():
    printed = "\n".join(
        HangAnswer(judge(load_situation(ROOT / "wavesim/safety/hang/cases/mpk-775.toml"))).lines
    )
    shown = PAGE.split("mpk-775.toml\n")[1].split("```")[0]
    assert re.sub(r"\s+", " ", shown).strip() == re.sub(r"\s+", " ", printed).strip()


def test_the_file_that_the_page_shows_can_hang_as_the_page_says():
    shown = tomllib.loads(PAGE.split("```toml\n")[1].split("```")[0])
    verdict = judge(situation_of(Path("launches.toml"), shown))
    assert verdict.can_hang
    (holder,) = HangAnswer(verdict).holders
    assert f"{holder.blocks} blocks of the consumer, placed first, fill the {holder.sms} SMs" in PAGE
