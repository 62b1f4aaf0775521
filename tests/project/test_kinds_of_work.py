"""Kinds of work answer questions: nothing outside their room and their kernels' folders asks for a class."""

import ast
from collections.abc import Iterator
from functools import cache

import pytest
from source_trees import ROOT, WAVESIM, WAVESIM_GPU, sources, tree_of

ROOM, KERNELS = WAVESIM / "work", WAVESIM_GPU / "kernels"
BASES = {"Work", "TiledWork"}  # a base is asked for only where a value from outside is checked


@cache
def kinds() -> set[str]:
    """Names of all classes that derive from `Work`."""
    bases = {
        node.name: {ast.unparse(base) for base in node.bases}
        for path in sources()
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.ClassDef)
    }
    found = set(BASES)
    while more := {name for name, above in bases.items() if above & found} - found:
        found |= more
    return found - BASES


def questions(tree: ast.AST, names: set[str]) -> Iterator[str]:
    """Every place that asks whether a value is of one of these classes, or compares a class's name."""
    for node in ast.walk(tree):
        asked: list[ast.AST] = []
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("isinstance", "issubclass"):
            asked = list(node.args[1:])
        elif isinstance(node, ast.MatchClass):
            asked = [node.cls]
        elif isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            if any(
                isinstance(n, ast.Call) and ast.unparse(n.func) == "type" for s in sides for n in ast.walk(s)
            ):
                asked = sides
            if any(ast.unparse(side).endswith("__name__") and "work" in ast.unparse(side) for side in sides):
                yield f"line {node.lineno}: {ast.unparse(node)}"
        words = {n.id for part in asked for n in ast.walk(part) if isinstance(n, ast.Name)}
        if words & names or any("TiledWork" in ast.unparse(part) for part in asked):
            yield f"line {getattr(node, 'lineno', 0)}: {ast.unparse(node)}"


def test_the_kinds_are_known():
    assert {"Gemm", "Conv2D", "Attention", "AttentionDecode", "Norm", "Kernel", "SharedTiles"} <= kinds()


def test_nothing_outside_its_room_asks_for_a_kind_of_work():
    names = kinds()
    wrong = [
        f"{path.relative_to(ROOT)} {place}"
        for path in sources()
        if ROOM not in path.parents and KERNELS not in path.parent.parents
        for place in questions(tree_of(path), names)
    ]
    assert not wrong


@pytest.mark.parametrize(
    "code",
    [
        "isinstance(stage.work, Gemm)",
        "isinstance(stage.work, Norm | Softmax)",
        "issubclass(kind, (Conv2D, Gemm))",
        "type(stage.work) is Attention",
        "type(work) in (Gemm, Kernel)",
        "type(stage.work).__name__ == 'Gemm'",
        "isinstance(work, TiledWork)",
        "match work:\n    case Gemm(m=1):\n        pass",
    ],
)
def test_each_way_of_asking_is_seen(code: str):
    assert list(questions(ast.parse(code), kinds()))


def test_asking_for_other_classes_is_not_counted():
    assert not list(
        questions(ast.parse("isinstance(value, int) and type(x) is Device and {Gemm: 1}[t]"), kinds())
    )
