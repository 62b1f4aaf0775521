"""The glossary is short, and what it names exists in the code."""

import ast
import functools
import re
from pathlib import Path

import pytest
from source_trees import ROOT, sources, tree_of

GLOSSARY = (ROOT / "GLOSSARY.md").read_text(encoding="utf-8")
ROWS = [line.split(" | ") for line in GLOSSARY.splitlines() if line.startswith("| **")]


@functools.cache
def names_in_code() -> frozenset[str]:
    """What Python files of both packages define, and every word of the CUDA sources."""
    names: set[str] = set()
    for path in sources():
        names |= defined_names(path)
    for folder in ("wavesim", "gpu/wavesim_gpu"):
        for path in (ROOT / folder).rglob("*.cu*"):
            names |= set(re.findall(r"\w+", path.read_text(encoding="utf-8")))
    return frozenset(names)


def defined_names(path: Path) -> set[str]:
    """`Class`, `Class.member`, `function` and constants that a Python file defines or assigns."""
    names = set()
    for node in tree_of(path).body:
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
