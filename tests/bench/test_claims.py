"""Every figure that README and docs/claims.md claim is in the table of claims, with the same value."""

import json
import re
import subprocess
from pathlib import Path

import pytest

from wavesim.bench.claims import load_claims
from wavesim.cli.command_line import main

ROOT = Path(__file__).parents[2]
README, PAGE = (
    " ".join((ROOT / name).read_text(encoding="utf-8").split()) for name in ("README.md", "docs/claims.md")
)
PAGES = ("evidence", "layers", "convolutions", "two-gpus")
RESULTS = re.sub(  # without the words of pictures, which are drawn from files
    r"<[^>]+>", "", " ".join((ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8") for page in PAGES)
)
OF_NAMES = {0.5, 2.5}  # Qwen2.5 0.5B
CLAIMS = load_claims()
KEYS = ["name", "value", "unit", "must", "aim", "better", "device", "date", "commit", "command"]


def test_the_command_prints_a_list_of_claims_with_the_documented_keys(capsys):
    assert main(["claims", "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert [list(entry) for entry in printed] == [KEYS] * len(CLAIMS)
    assert len({entry["name"] for entry in printed}) == len(printed)
    assert all(entry["better"] in ("higher", "lower") for entry in printed)


def test_the_table_fits_a_terminal_of_100_columns(capsys):
    assert main(["claims"]) == 0
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 100


def test_a_measured_claim_says_where_and_by_which_command_and_an_open_one_has_no_value():
    for claim in CLAIMS:
        assert (claim.value is None) == (claim.command is None), claim.name
        assert claim.value is None or claim.device, claim.name
        assert claim.value is not None or claim.must is not None, claim.name


LOST = "4501d33"  # of a history before this one


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="no history here")
def test_a_claims_commit_is_of_this_history():
    known = git("log", "--format=%H").split()
    if git("rev-parse", "--is-shallow-repository").strip() == "true":
        pytest.skip("a shallow clone has no history")
    commits = {claim.commit for claim in CLAIMS if claim.commit and not claim.commit.startswith(LOST)}
    assert [commit for commit in sorted(commits) if not any(name.startswith(commit) for name in known)] == []


def git(*words: str) -> str:
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("claim", [c for c in CLAIMS if c.said], ids=lambda claim: claim.name)
def test_a_figure_of_the_page_is_the_claims_value(claim):
    assert claim.said.format(claim.value).replace("%", " %").replace("  %", " %") in PAGE


def test_every_figure_of_page_and_readme_is_in_the_table():
    """Numbers with a decimal point, of the page, the README's last section and the results pages."""
    told = " ".join(claim.said.format(claim.value) for claim in CLAIMS if claim.said)
    figures = [figure for claim in CLAIMS for figure in (claim.value, claim.must) if figure is not None]
    known = {*figures, *(round(figure, 1) for figure in figures), *numbers(told)}
    missing = numbers(PAGE + README.partition("## How far to trust it")[2] + RESULTS) - known
    # Errors of predicting no gain stand beside the scores, as what these are compared with; 0.98 is a bound.
    assert sorted(missing - {4.3, 5.0, 3.8, 0.98, *OF_NAMES}) == []


def numbers(text: str) -> set[float]:
    return set(map(float, re.findall(r"\d+\.\d+", text)))
