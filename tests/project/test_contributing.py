"""Files that CONTRIBUTING and the documents name exist, and so do the answers to everyday questions."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
QUESTIONS = tomllib.loads((Path(__file__).parent / "everyday_questions.toml").read_text(encoding="utf-8"))
PAGES = ("CONTRIBUTING.md", "README.md", *(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md")))
# `a/b.py`, or `b.py` in the folder of the last file that was named with its folder.
FILE = re.compile(r"`([\w./-]+\.(?:py|cuh|cu|js|md|toml|json))`")
SOURCES = ("wavesim/", "gpu/", "tests/", "docs/", "tools/", "notebooks/")


@pytest.mark.parametrize("question", QUESTIONS["question"], ids=lambda question: question["file"])
def test_the_file_that_answers_an_everyday_question_exists_and_speaks_of_it(question):
    assert question["asks"].endswith("?")
    text = (ROOT / question["file"]).read_text(encoding="utf-8")
    assert question["says"] in text


def test_there_are_ten_everyday_questions_with_a_file_each():
    assert len({question["file"] for question in QUESTIONS["question"]}) == 10


@pytest.mark.parametrize("page", PAGES)
def test_every_source_file_that_a_page_names_exists(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    missing = [name for name in FILE.findall(text) if name.startswith(SOURCES) and not (ROOT / name).exists()]
    assert missing == []


def test_the_picture_of_the_rooms_has_every_room():
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    drawn = set(re.findall(r"[\w/]+", text.split("```")[1]))
    packages = (ROOT / "wavesim", ROOT / "gpu" / "wavesim_gpu")
    rooms = {path.parent.name for package in packages for path in package.glob("*/__init__.py")}
    assert rooms - drawn - {"recordings", "trial", "persistent"} == set()
