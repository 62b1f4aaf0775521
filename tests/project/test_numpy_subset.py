"""The site in a browser has no NumPy: what runs there runs here with the site's part of NumPy in its place.

Example: notebook 1 top to bottom, in a process that cannot see NumPy. `make lite-test` runs all in Chromium.
"""

import json
import subprocess
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

ROOT = Path(__file__).parents[2]
SUBSET = ROOT / "lite" / "numpy_subset"
NOTEBOOKS = (ROOT / "lite" / "notebooks.txt").read_text(encoding="utf-8").split()
SWEEPS = ("02", "06", "08", "09", "10")  # simulate longest
RUN = """
import json, sys
from pathlib import Path
import numpy
assert numpy.__version__ == "0+wavesim.lite", numpy.__file__
for path in sys.argv[1:]:
    names = {"display": print}
    for cell in json.loads(Path(path).read_text(encoding="utf-8"))["cells"]:
        source = "".join(cell["source"]).replace('USE_GPU = "auto"', 'USE_GPU = "never"')
        if cell["cell_type"] == "code":
            source = source.removeprefix("%load_ext wavesim.teaching\\n")
            exec(compile(source, path, "exec"), names)
"""


def subset():
    """The site's part of NumPy, under a name of its own so that NumPy stays beside it."""
    if "lite_numpy" not in sys.modules:
        home = SUBSET / "numpy"
        spec = spec_from_file_location(
            "lite_numpy", home / "__init__.py", submodule_search_locations=[str(home)]
        )
        module = sys.modules["lite_numpy"] = module_from_spec(spec)
        spec.loader.exec_module(module)
    return sys.modules["lite_numpy"]


def test_the_first_notebooks_run_with_the_sites_part_of_numpy():
    chosen = [str(ROOT / "notebooks" / name) for name in NOTEBOOKS if name[:2] not in SWEEPS]
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", RUN, *chosen],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT / "notebooks",
        env={"PYTHONPATH": f"{SUBSET}:{ROOT}", "PATH": ""},
    )
    assert done.returncode == 0, done.stderr[-3000:]


NUMBERS = st.lists(st.integers(-50, 50), min_size=1, max_size=12)
OF_ONE = {
    "sum": lambda n, a: a.sum(),
    "cumsum": lambda n, a: a.cumsum(),
    "sorted": lambda n, a: n.argsort(a, kind="stable"),
    "steps": lambda n, a: n.diff(a, prepend=0),
    "places": lambda n, a: n.flatnonzero(a > 3),
    "places by axis": lambda n, a: (a > 3).nonzero()[0],
    "magnitude": lambda n, a: n.log10(abs(a) + 1),
    "masked": lambda n, a: a[a % 2 == 0],
    "backwards": lambda n, a: a[::-1],
    "divided": lambda n, a: a / 7,
    "floored": lambda n, a: a // 7,
    "narrow": lambda n, a: (a / 3).astype(n.float32).tolist(),
    "clipped": lambda n, a: n.clip(a, -2, None),
    "either": lambda n, a: n.where(a > 0, a, 0.5),
    "reached": lambda n, a: n.maximum.accumulate(a),
    "known": lambda n, a: n.concatenate(n.unique(a, return_counts=True)),
    "counted": lambda n, a: n.bincount(abs(a), a * 0.5),
    "median": lambda n, a: n.median(a),
    "quarters": lambda n, a: n.percentile(a, [25, 75]),
    "column": lambda n, a: (a[:, None] < a).sum(axis=1),
    "each with each": lambda n, a: (a * a[:, None] - (a[:, None] + a) + a[:, None]).ravel(),
    "picked": lambda n, a: a[abs(a)[:, None] % len(a)][:, 0],
    "stretched": lambda n, a: n.broadcast_to(a[:, None], (len(a), 3)).ravel(),
    "not below": lambda n, a: n.maximum(a, n.minimum(2.5, a[::-1])),
    "rows": lambda n, a: n.column_stack([a, a + 1])[:, 1],
    "repeated": lambda n, a: n.repeat(a, abs(a) % 3),
    "between": lambda n, a: n.interp(a, [-10, 0, 20], [1.0, 2.0, 4.0]),
    "where it goes": lambda n, a: n.searchsorted(n.arange(-5, 6), a, side="right"),
    "rounded": lambda n, a: n.rint(a * 0.5),
    "bytes": lambda n, a: list(a.astype(n.int16).tobytes()),
}


def plain(value):
    """Lists and numbers, whoever made them."""
    return value.tolist() if hasattr(value, "tolist") else value


@pytest.mark.parametrize("name", OF_ONE)
@given(values=NUMBERS)
def test_an_operation_gives_what_numpy_gives(name, values):
    ours, theirs = (plain(OF_ONE[name](module, module.array(values))) for module in (subset(), np))
    assert ours == pytest.approx(theirs, abs=1e-12)


def test_a_record_can_be_named_but_not_held():
    record = subset().dtype([("seen", "<u4"), ("sm", "<i4")])
    with pytest.raises(TypeError, match="no array of records"):
        subset().array([1, 2], record)


def test_draws_are_numpys():
    ours, theirs = (module.random.default_rng(576).gamma(2.0, 0.5, 576) for module in (subset(), np))
    assert ours.tolist() == pytest.approx(theirs.tolist(), rel=1e-13)


def test_experts_are_drawn_as_numpy_draws_them():
    def drawn(module):
        random = module.random.default_rng(3)
        order, noise = random.permutation(37), random.gumbel(size=(5, 37))
        chosen = module.argpartition(-noise, 3, axis=1)[:, :4]
        return order.tolist(), noise.ravel().tolist(), sorted(chosen.ravel().tolist())

    ours, theirs = drawn(subset()), drawn(np)
    assert (ours[0], ours[2]) == (theirs[0], theirs[2])
    assert ours[1] == pytest.approx(theirs[1], rel=1e-13)


def test_an_archive_that_one_writes_the_other_reads(tmp_path):
    columns = {"end_ns": [3, 1, 2], "share": [0.5, 0.25, 1.0]}
    for writer, reader in ((subset(), np), (np, subset())):
        with (tmp_path / "trace.npz").open("wb") as file:
            writer.savez_compressed(file, **{name: writer.array(values) for name, values in columns.items()})
        with (tmp_path / "trace.npz").open("rb") as file, reader.load(file, allow_pickle=False) as archive:
            assert {name: archive[name].tolist() for name in archive.files} == columns


def test_what_is_missing_is_named():
    with pytest.raises(AttributeError, match=r"numpy\.fft is not in this page"):
        subset().fft  # noqa: B018
    with pytest.raises(TypeError, match="complex128"):
        subset().zeros(3, "complex128")


def test_the_site_loads_what_its_kernel_asks_for():
    config = json.loads((ROOT / "lite" / "jupyter-lite.json").read_text(encoding="utf-8"))
    kernel = config["jupyter-config-data"]["litePluginSettings"][
        "@jupyterlite/pyodide-kernel-extension:kernel"
    ]
    assert kernel["disablePyPIFallback"]
    assert "wavesim" in kernel["loadPyodideOptions"]["packages"]
    assert all((ROOT / "notebooks" / name).is_file() for name in NOTEBOOKS)
