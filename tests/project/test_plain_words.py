"""Phrases that CONTRIBUTING keeps out are in no page, notebook, docstring or error."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
WORDS = " ".join((ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").partition("keeps out:")[2].split())
PHRASES = re.findall(r'"([a-z ]+)"', WORDS.partition(". Commit")[0])
READ = [
    *ROOT.glob("*.md"),
    *(
        path
        for top in ("docs", "notebooks", "wavesim", "gpu/wavesim_gpu")
        for path in (ROOT / top).rglob("*")
    ),
]
# Records of closed runs keep the words that they were written with.
LEFT_OUT = {"CONTRIBUTING.md", "CHANGELOG.md"}


def pages():
    for path in READ:
        if path.suffix in (".md", ".py", ".toml", ".ipynb") and path.name not in LEFT_OUT:
            yield path, " ".join(path.read_text(encoding="utf-8").split()).lower()


@pytest.mark.parametrize("phrase", PHRASES)
def test_a_phrase_that_is_kept_out_is_nowhere(phrase):
    whole = re.compile(rf"(?<![a-z]){phrase}(?![a-z])")
    assert [str(path.relative_to(ROOT)) for path, text in pages() if whole.search(text)] == []


def test_there_are_such_phrases():
    assert len(PHRASES) >= 8
