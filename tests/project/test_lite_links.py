"""The browser edition's notebooks link to each other only: a link to one that is not there is a sentence."""

import json
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NAMES = (ROOT / "lite" / "notebooks.txt").read_text(encoding="utf-8").split()


@pytest.mark.parametrize("name", NAMES)
def test_a_link_leads_to_a_notebook_of_the_site_or_is_a_sentence(name, monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "lite"))
    monkeypatch.delitem(sys.modules, "build", raising=False)
    from build import with_known_links

    text = (ROOT / "notebooks" / name).read_text(encoding="utf-8")
    told = with_known_links(text, NAMES)
    assert json.loads(told)["cells"]
    assert set(re.findall(r"\]\((\d\d_\w+\.ipynb)\)", told)) <= set(NAMES)
    absent = set(re.findall(r"\]\((\d\d_\w+\.ipynb)\)", text)) - set(NAMES)
    assert all(f"(notebook {int(other[:2])}, with wavesim installed)" in told for other in absent)
