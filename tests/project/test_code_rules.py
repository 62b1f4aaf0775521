"""Rules of the house that imports do not show: names, sizes, docstrings, and what asks for a plan's class."""

import ast
import functools
import importlib
import inspect
import re
from pathlib import Path

from source_trees import ROOT, WAVESIM, WAVESIM_GPU, sources, text_of, tree_of

MAX_LINES = 400
DRAWERS = {"utils", "util", "helpers", "helper", "common", "misc"}
# Classes of a plan's parts; other rooms ask a part for its properties.
PLAN_PARTS = {
    *("Schedule", "TilePerBlock", "Persistent", "StreamK"),
    *("Launch", "OneStream", "StreamPerStage", "DependentLaunch"),
    *("Sync", "KernelBoundary", "Semaphores"),
}
# What a part of a plan answers in words: for its own room, for files and for people.
PLAN_CODE = r"\.(after|follows|then|submission|turn)$|\bturn_of\(|\b(schedule|launch|sync)\.word$"
TAG = re.compile(r"</?(a|b|br|code|div|extra|h[1-6]|i|li|ol|p|script|small|span|style|t[dhr]|table|ul)[ >]")
BACKENDS = {"hopper", "portable"}
# Called by their full names, `wavesim_gpu.layers.mlp.mlp`, or from the package alone.
NAMED_LIKE_THEIR_MODULE = {
    "gpu/wavesim_gpu/layers/choose.py: choose()",
    "gpu/wavesim_gpu/layers/mlp.py: mlp()",
}


def test_no_file_is_a_drawer_for_odds_and_ends():
    files = [p for top in ("wavesim", "gpu", "tests") for p in (ROOT / top).rglob("*.py")]
    assert not [p for p in files if p.stem in DRAWERS]


def test_no_file_is_longer_than_400_lines():
    files = [p for top in ("wavesim", "gpu", "tests") for p in (ROOT / top).rglob("*.py")]
    lengths = {str(p.relative_to(ROOT)): text_of(p).count("\n") for p in files}
    assert {path: length for path, length in lengths.items() if length > MAX_LINES} == {}


def test_only_the_plan_room_asks_a_plan_or_its_part_for_a_class():
    wrong = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in sources()
        if WAVESIM / "plan" not in path.parents
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Call) and asks_a_plan_for_its_class(node)
    ]
    assert wrong == []


def asks_a_plan_for_its_class(call: ast.Call) -> bool:
    """Whether it is `isinstance(plan, ...)`, or of any value with a part of a plan as the class."""
    if ast.unparse(call.func) != "isinstance":
        return False
    asked, classes = (ast.unparse(argument) for argument in call.args)
    is_plan = asked == "plan" or asked.endswith((".plan", "plan.schedule", "plan.launch", "plan.sync"))
    return is_plan or not set(re.findall(r"\w+", classes)).isdisjoint(PLAN_PARTS)


def test_no_room_compares_an_answer_of_a_plan_part_with_a_string():
    """A part answers named predicates: `schedule.is_persistent`, `launch.is_dependent`, `turn.is_early`."""
    wrong = [
        f"{path.relative_to(ROOT)}:{node.lineno}: {ast.unparse(node)}"
        for path in sources()
        if WAVESIM / "plan" not in path.parents
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Compare) and reads_a_plan_code(node)
    ]
    assert wrong == []


def reads_a_plan_code(compare: ast.Compare) -> bool:
    sides = [compare.left, *compare.comparators]
    is_code = any(re.search(PLAN_CODE, ast.unparse(side)) for side in sides)
    constants = (node for side in sides for node in ast.walk(side) if isinstance(node, ast.Constant))
    return is_code and any(isinstance(constant.value, str) for constant in constants)


def test_no_device_and_no_kernel_backend_is_named_in_code():
    devices = {path.stem for path in (WAVESIM / "model" / "devices").glob("*.toml")} - {"toy"}
    assert "h200" in devices
    named = [
        f"{path.relative_to(ROOT)}:{node.lineno}: {node.value}"
        for path in sources()
        # Backends say what they are called; a measurement is one of certain kernels.
        if not {WAVESIM_GPU / "kernels", WAVESIM_GPU / "bench", WAVESIM / "bench"} & set(path.parents)
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Constant) and node.value in devices | BACKENDS
    ]
    assert named == []


def test_stream_k_is_known_to_its_file_and_its_registration():
    users = {
        str(path.relative_to(ROOT))
        for path in sources()
        if path != WAVESIM / "__init__.py" and re.search(r"\bStreamK\b", text_of(path))
    }
    assert "wavesim/plan/stream_k.py" in users
    assert len(users) <= 1


def test_a_class_name_has_one_meaning():
    owners: dict[str, list[str]] = {}
    for path in sources():
        for node in tree_of(path).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                owners.setdefault(node.name, []).append(str(path.relative_to(ROOT)))
    twice = {name: files for name, files in owners.items() if len(files) > 1}
    assert twice == {}


def test_tests_of_a_room_stand_in_a_folder_of_its_name():
    def rooms(package: Path) -> set[str]:
        return {folder.name for folder in package.iterdir() if (folder / "__init__.py").is_file()}

    unit = ROOT / "tests" / "unit"
    tested = {folder.name for folder in unit.iterdir() if any(folder.rglob("test_*.py"))}
    tested_on_gpu = {folder.name for folder in (unit / "gpu").iterdir() if any(folder.glob("test_*.py"))}
    assert tested <= rooms(WAVESIM) | {"gpu"}
    assert tested_on_gpu <= rooms(WAVESIM_GPU)


def test_html_is_written_and_shown_in_one_way():
    """Elements come from `safe_io.escaping`, and notebooks get them through `widgets.words`."""
    ours = {WAVESIM / "safe_io" / "escaping.py", WAVESIM / "widgets" / "words.py"}
    wrong = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in sources()
        if path not in ours
        for node in ast.walk(tree_of(path))
        if builds_html_by_hand(node)
    ]
    assert wrong == []


def builds_html_by_hand(node: ast.AST) -> bool:
    """Whether a text with a tag is put together by "+" or an f-string, or html.escape or HTML() is used."""
    if isinstance(node, ast.ImportFrom):
        return node.module == "html" or any(name.name == "HTML" for name in node.names)
    if isinstance(node, ast.Attribute):
        return ast.unparse(node) in ("html.escape", "ipywidgets.HTML", "widgets.HTML")
    parts = node.values if isinstance(node, ast.JoinedStr) else []
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        parts = [node.left, node.right]
    return any(isinstance(part, ast.Constant) and TAG.search(str(part.value)) for part in parts)


def test_an_attribute_of_a_template_stands_in_double_quotes():
    """`Markup.format` leaves an apostrophe as it is."""
    wrong = [
        str(path.relative_to(ROOT)) for path in sources() if re.search(r"<[a-z]+ [^>]*='?\{", text_of(path))
    ]
    assert wrong == []


def test_what_stands_in_tests_gpu_needs_one():
    for path in (ROOT / "tests" / "gpu").glob("test_*.py"):
        tests = [n for n in tree_of(path).body if isinstance(n, ast.FunctionDef)]
        marked = [n.name for n in tests if "pytest.mark.gpu" in map(ast.unparse, n.decorator_list)]
        assert marked or "pytestmark = pytest.mark.gpu" in text_of(path), path.name


def test_gpu_is_a_folder_and_not_a_package():
    assert not (ROOT / "gpu" / "__init__.py").exists()


def test_no_module_shares_its_name_with_a_function_beside_it():
    wrong = []
    for path in sources():
        beside = {p.stem for p in path.parent.iterdir() if p.suffix == ".py" or p.is_dir()}
        tree = tree_of(path)
        functions = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
        wrong += [f"{path.relative_to(ROOT)}: {name}()" for name in sorted(functions & beside)]
    assert sorted(set(wrong) - NAMED_LIKE_THEIR_MODULE) == []


def test_every_public_method_has_a_docstring_of_its_own_or_its_base():
    bare = []
    for path in sources(WAVESIM):
        if path.stem == "__main__":
            continue
        module = importlib.import_module(".".join(path.relative_to(ROOT).with_suffix("").parts))
        for owner_name, owner in inspect.getmembers(module, inspect.isclass):
            if owner.__module__ == module.__name__ and not owner_name.startswith("_"):
                public = [name for name in vars(owner) if not name.startswith("_")]
                bare += [f"{owner_name}.{name}" for name in public if lacks_docstring(owner, name)]
    assert not bare


def lacks_docstring(owner: type, name: str) -> bool:
    member = inspect.getattr_static(owner, name)
    is_method = isinstance(member, property | functools.cached_property | classmethod | staticmethod)
    # inspect.getdoc looks at the base classes too.
    return (is_method or inspect.isfunction(member)) and not inspect.getdoc(getattr(owner, name))
