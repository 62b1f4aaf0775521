"""The glossary is short, what it names exists in the code, and no older word is left."""

import ast
import functools
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
GLOSSARY = (ROOT / "GLOSSARY.md").read_text(encoding="utf-8")
ROWS = [line.split(" | ") for line in GLOSSARY.splitlines() if line.startswith("| **")]


@functools.cache
def names_in_code() -> frozenset[str]:
    """What Python files of both packages define, and every word of the CUDA sources."""
    names: set[str] = set()
    for folder in ("wavesim", "gpu/wavesim_gpu"):
        for path in (ROOT / folder).rglob("*.py"):
            names |= defined_names(path)
        for path in (ROOT / folder).rglob("*.cu*"):
            names |= set(re.findall(r"\w+", path.read_text(encoding="utf-8")))
    return frozenset(names)


def defined_names(path: Path) -> set[str]:
    """`Class`, `Class.member`, `function` and constants that a Python file defines or assigns."""
    names = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        names |= set(_names(node))
        if isinstance(node, ast.ClassDef):
            names |= {f"{node.name}.{name}" for member in ast.walk(node) for name in _names(member)}
    return names


def _names(node: ast.AST) -> list[str]:
    if isinstance(node, ast.ClassDef | ast.FunctionDef):
        return [node.name]
    if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        return [node.target.id]
    targets = node.targets if isinstance(node, ast.Assign) else []
    names = [target.id for target in targets if isinstance(target, ast.Name)]
    return names + [t.attr for t in targets if isinstance(t, ast.Attribute)]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0].strip("|* "))
def test_a_term_of_the_glossary_names_code_that_exists(row):
    symbols = re.findall(r"`([^`]+)`", row[-1])
    assert symbols
    assert [name for name in symbols if name not in names_in_code()] == []


def test_the_glossary_is_short_and_has_each_term_once():
    terms = [term for row in ROWS for term in re.findall(r"\*\*(.+?)\*\*", row[0])]
    assert len(terms) == len(set(terms))
    assert 80 <= len(ROWS) <= 100
    assert len(GLOSSARY.encode()) <= 12_288


# Words of our own, or of other fields, that a term of the glossary replaced.
OLDER = {
    r"(?i)\bcopy engines?\b": "TMA",
    r"(?i)\bmath (warp)?groups?\b": "MMA warpgroup",
    r"\bslices? of K\b": "split",
    r"\bclass (Joint|Family)\b|\bboth_sm90\b": "kernel backend, fused persistent kernel",
    r"(?i)\b(loading|storing) warps?\b": "producer warp, epilogue warp",
    r"\bTileNotes?\b|\bhand_over_held\b|\btake_turn\b|\bput_back\b": "WorkTile, flush deferred stores, ...",
    r"\bgpu_standing\b|\bcycle_parts\b|\bmachine_costs\b": "speedups, cycle breakdown, device costs",
    r"\bPicture: ": "Example:",
    r"what asks for|who comes last|takes back": "say the mechanism",
    r"(?i)\boracles?\b": "reference simulator",
    r"(?i)\bforet(ell|old)": "register a prediction",
    r"(?i)\bjudged run\b|\bJudged[A-Z]": "blind run",
    r"(?i)\b(development|test) half\b|\bhalf_of\b": "development split, test split",
    r"\bown_measurements\b|\bother_measurements\b": "the datasets by name",
    r"\beldest\b|(?i:\belders?\b)": "oldest-first bias",
    r"\bBlockLives\b|\bAlarms?\b": "block process, timer",
    r"\bdraw_order\b|\bdraws_by_sm\b(?!\")": "fetch a tile",
}
# In CUDA a copy engine is the DMA unit between host and device; only in our kernels it stood for TMA.
ONLY_IN = {
    r"(?i)\bcopy engines?\b": tuple(
        f"gpu/wavesim_gpu/{room}"
        for room in ("cusync", *(f"kernels/{kind}" for kind in ("attention", "convolution", "gemm", "rows")))
    )
}
SEARCHED = (
    ("wavesim", "*.py"),
    ("wavesim", "*.js"),
    ("wavesim", "*.toml"),
    ("gpu/wavesim_gpu", "*.*"),
    ("gpu/examples", "*.*"),
    ("tools", "*.py"),
    ("docs", "*.md"),
    ("notebooks", "*.*"),
    ("solutions", "*.py"),
)
TEXTS = [
    path
    for folder, pattern in SEARCHED
    for path in sorted((ROOT / folder).rglob(pattern))
    if path.is_file() and "__pycache__" not in path.parts
] + [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "Makefile")]


@pytest.mark.parametrize("older", OLDER, ids=lambda older: OLDER[older])
def test_a_word_that_a_term_replaced_is_not_used_any_more(older):
    pattern = re.compile(older)
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in TEXTS
        if path.relative_to(ROOT).as_posix().startswith(ONLY_IN.get(older, ""))
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        if pattern.search(line)
    ]
    assert found == [], OLDER[older]
