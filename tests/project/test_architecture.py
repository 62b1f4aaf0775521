"""Imports point one way, each third-party package has one owner, and `import wavesim` is light.

Import arrows, lowest first; a part may use what is above it in the list, never what is below:

    errors, html_display <- safe_io <- model, trace, litmus <- work <- plan, workloads, sm <- costs
           <- sim, recordings
           <- safety, lint, predict, sim/streams, sim/peers
           <- codegen <- tuning, view <- tuning/crossover, profile, model_time <- widgets
           <- comparison
           <- teaching, bench <- cli
"""

import ast
import functools
import graphlib
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from source_trees import ROOT, WAVESIM, WAVESIM_GPU, sources, tree_of

# Parts of wavesim by how far up they stand.
RANKS = {
    part: rank
    for rank, parts in enumerate(
        (
            "errors safe_io html_display",
            "model trace litmus",
            "work",
            "plan workloads sm",
            "costs",
            "sim recordings",
            "safety lint predict sim/streams sim/peers",
            "labs codegen",
            "tuning view",
            "tuning/crossover profile model_time",
            "widgets",
            "comparison",
            "teaching bench",
            "cli",
            "__main__",
        )
    )
    for part in parts.split()
}
# The rooms of wavesim_gpu, by what they know of: a driver knows no kernel, a kernel no plan's launches.
GPU_RANKS = {
    part: rank
    for rank, parts in enumerate(
        (
            "driver",
            "record",
            "cusync",
            "kernels",
            "hang",
            "run",
            "cublas triton",
            "characterise peers persistent layers",
            "torch",
            "trial runner __init__",
            "shake bench",
            "__main__",
        )
    )
    for part in parts.split()
}
OWNERS = {
    "simpy": {"sim", "sim/streams", "sim/peers"},
    "distributed": {"tuning"},
    "ijson": {"profile"},
    # The notebooks' own figures and forms are in teaching, where no other part can come to need them.
    "plotly": {"view", "profile", "teaching", "bench"},
    "ipywidgets": {"widgets", "teaching"},
    "anywidget": {"widgets"},
    "traitlets": {"widgets"},
    "IPython": {"view", "widgets", "teaching"},
}
EVERYWHERE = {"numpy"}
# Importing any of these would need simpy, plotly or a notebook, which a GPU machine need not have.
NOT_FOR_GPU = {"sim", "view", "widgets", "comparison", "cli"}
HEAVY = ["simpy", "plotly", "ipywidgets", "anywidget", "cupy"]
# A None in sys.modules makes the import fail as if the package were not installed.
WITHOUT_HEAVY = f"import sys; sys.modules.update(dict.fromkeys({HEAVY!r}))"
# Files of wavesim_gpu that meet PyTorch's tensors or Triton's kernels; nothing imports the last two unasked.
TORCH = """
alone blocks buffers command decode_layers decode_steps decoder_parts decoding direct expert_layers
expert_modules graphs group_memory grouped_chain kept_ways layer_product library_ways mlp mlps model_trial
models modules moe_layers outputs parallel parallel_calls parallel_tuning parallel_ways profiled rank
step_times swap tensor_parallel tensors torch_chain torch_formula torch_operator triton
triton_moe user_model worker
"""
OPTIONAL = {(f"{name}.py", "torch") for name in TORCH.split()} | {
    ("library_ways.py", "kraken"),
    ("models.py", "transformers"),
    ("triton_moe.py", "triton"),
    ("triton_recorder.py", "triton"),
}
# Imports inside functions, commands aside: they run down as all others, and keep a package or a GPU unneeded
# until somebody asks for it. Module -> what it imports so.
LAZY = {
    "wavesim": {"wavesim.model.device", "wavesim.view", "wavesim.widgets"},
    "wavesim.__main__": {"wavesim.cli.command_line"},
    "wavesim.comparison": {"wavesim.view.comparison"},
}


@functools.cache
def imports(path: Path, *, typing_too: bool = True) -> tuple[str, ...]:
    """Absolute dotted names that a file imports, at any depth; type checkers' own only if `typing_too`."""
    return tuple(imports_of(path, typing_too))


def imports_of(path: Path, typing_too: bool) -> Iterator[str]:
    package = path.relative_to(ROOT / "gpu" if WAVESIM_GPU in path.parents else ROOT).parent.parts
    for node in walk(tree_of(path), typing_too):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(package[: len(package) - node.level + 1]) if node.level else ""
            stem = ".".join(part for part in (base, node.module) if part)
            # `from wavesim import model` names a part, `from wavesim.model import Device` a class of one.
            yield from (f"{stem}.{alias.name}" for alias in node.names)


def walk(node: ast.AST, typing_too: bool) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(node):
        is_typing = isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING"
        if typing_too or not is_typing:
            yield child
            yield from walk(child, typing_too)


def part_of(path: Path) -> str:
    package = WAVESIM_GPU if WAVESIM_GPU in path.parents else WAVESIM
    return part_named([part.removesuffix(".py") for part in path.relative_to(package).parts])


def part_named(names: Sequence[str]) -> str:
    """The room that a module is in: a folder of the package, or a folder of one that has its own rank."""
    inner = "/".join(names[:2])
    return inner if inner in RANKS else names[0]


def part_arrows(package: Path = WAVESIM) -> set[tuple[str, str]]:
    arrows = set()
    for path in sources(package):
        if path == WAVESIM / "__init__.py":
            continue
        for name in imports(path):
            owner, *rest = name.split(".")
            if owner == package.name and rest and part_named(rest) != part_of(path):
                arrows.add((part_of(path), part_named(rest)))
    return arrows


def third_parties(package: Path) -> Iterator[tuple[Path, str]]:
    for path in sources(package):
        # An annotation needs a package only where types are checked.
        for name in imports(path, typing_too=False):
            top = name.split(".")[0]
            if top not in sys.stdlib_module_names and top not in {"wavesim", "wavesim_gpu"}:
                yield path, top


def run_python(code: str, cwd: Path) -> str:
    done = subprocess.run([sys.executable, "-c", code], cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


BOTH = pytest.mark.parametrize(
    ("package", "ranks"), [(WAVESIM, RANKS), (WAVESIM_GPU, GPU_RANKS)], ids=["wavesim", "wavesim_gpu"]
)


@BOTH
def test_every_part_has_a_rank(package, ranks):
    assert {part_of(path) for path in sources(package)} - {"__init__"} <= set(ranks)


@BOTH
def test_imports_point_from_higher_parts_to_lower_ones(package, ranks):
    wrong = {f"{a} -> {b}" for a, b in part_arrows(package) if b in ranks and ranks[b] > ranks[a]}
    assert not wrong


@BOTH
def test_parts_of_equal_rank_never_import_each_other_in_a_circle(package, ranks):
    graph: dict[str, set[str]] = {}
    for importer, imported in part_arrows(package):
        graph.setdefault(importer, set()).add(imported)
    list(graphlib.TopologicalSorter(graph).static_order())


def module_names() -> dict[str, Path]:
    """Every module of both packages by its dotted name; a folder's `__init__` has the folder's name.

    Not wavesim's own `__init__`, which names everything and loads it when asked.
    """
    found = {}
    for package in (WAVESIM, WAVESIM_GPU):
        for path in sources(package):
            parts = path.relative_to(package.parent).with_suffix("").parts
            found[".".join(part for part in parts if part != "__init__")] = path
    return {name: path for name, path in found.items() if path != WAVESIM / "__init__.py"}


def test_modules_never_import_each_other_in_a_circle_not_even_inside_functions_or_for_types():
    names = module_names()
    graph = {}
    for name, path in names.items():
        imported = {i if i in names else i.rpartition(".")[0] for i in imports(path)}
        graph[name] = imported & set(names) - {name}
    try:
        list(graphlib.TopologicalSorter(graph).static_order())
    except graphlib.CycleError as circle:
        pytest.fail(" -> ".join(circle.args[1]))


def test_imports_inside_functions_are_few_named_and_run_down():
    lazy: dict[str, set[str]] = {}
    for name, path in {**module_names(), "wavesim": WAVESIM / "__init__.py"}.items():
        if not name.startswith("wavesim_gpu") and not {"cli", "bench"} & set(path.parts):
            for function in ast.walk(tree_of(path)):
                if isinstance(function, ast.FunctionDef):
                    own = [n.module for n in ast.walk(function) if isinstance(n, ast.ImportFrom) and n.module]
                    lazy.setdefault(name, set()).update(m for m in own if m.startswith("wavesim"))
    found = {name: modules for name, modules in lazy.items() if modules}
    assert found == LAZY
    for name, modules in found.items():
        ranks = [RANKS[part_named([*m.split("."), ""][1:])] for m in modules]
        assert name == "wavesim" or max(ranks) < RANKS[part_named([*name.split("."), ""][1:])]


def test_each_third_party_package_is_imported_only_by_its_owner():
    wrong = {
        f"{path.relative_to(ROOT)} imports {top}"
        for path, top in third_parties(WAVESIM)
        if top not in EVERYWHERE and part_of(path) not in OWNERS.get(top, set())
    }
    assert not wrong


def test_wavesim_never_imports_wavesim_gpu():
    wrong = [
        path for path in sources(WAVESIM) if any(n.split(".")[0] == "wavesim_gpu" for n in imports(path))
    ]
    assert not wrong


def test_only_commands_import_bench():
    wrong = [
        f"{path.relative_to(ROOT)} imports {name}"
        for package in (WAVESIM, WAVESIM_GPU)
        for path in sources(package)
        for name in imports(path)
        if name.split(".")[1:2] == ["bench"]
        and not {"bench", "cli"} & set(path.relative_to(package).parts)
        and path != WAVESIM_GPU / "__main__.py"
    ]
    assert not wrong


def test_wavesim_gpu_imports_nothing_that_a_gpu_machine_may_lack():
    wrong = {
        f"{path.name}: {top}"
        for path, top in third_parties(WAVESIM_GPU)
        if top not in {"numpy", "cupy", "cuda", "pynvml"} and (path.name, top) not in OPTIONAL
    }
    for path in sources(WAVESIM_GPU):
        for name in imports(path):
            owner, *rest = [*name.split("."), ""]
            if owner == "wavesim" and part_named(rest) in NOT_FOR_GPU:
                wrong.add(f"{path.name}: {name}")
    assert not wrong


def test_importing_wavesim_loads_none_of_the_heavy_packages(tmp_path):
    heavy = [*HEAVY, "wavesim_gpu"]
    out = run_python(f"import sys, wavesim; print([m for m in {heavy!r} if m in sys.modules])", tmp_path)
    assert out.strip() == "[]"


def test_every_public_name_of_wavesim_resolves(tmp_path):
    code = "import wavesim; print([n for n in wavesim.__all__ if getattr(wavesim, n, None) is None])"
    assert run_python(code, tmp_path).strip() == "[]"


def test_describing_and_loading_need_neither_simpy_nor_plotly_nor_cupy(tmp_path):
    parts = "wavesim.model, wavesim.trace.trace, wavesim.workloads.catalogue, wavesim.recordings.shipped"
    run_python(f"{WITHOUT_HEAVY}; import wavesim, {parts}", tmp_path)


def test_the_gpu_package_and_its_command_start_without_cupy(tmp_path):
    parts = "wavesim_gpu.run.runner, wavesim_gpu.bench.labs.ladder"
    run_python(f"{WITHOUT_HEAVY}; import wavesim_gpu, wavesim_gpu.__main__, {parts}", tmp_path)
