"""`mlp(..., tune=True)` on a GPU: measured once, right, kept for other processes, and nothing left behind."""

import gc
import logging
import subprocess
import sys

import pytest

import wavesim_gpu
from wavesim_gpu.driver import cubin_cache
from wavesim_gpu.layers import mlp as mlp_calls
from wavesim_gpu.layers import prepared, tuning

pytestmark = pytest.mark.gpu
# m, k, n1, n2; activation; whether there is a gate of its own; whether weights are linear layers'.
FORMS = {
    "row-major gelu": ((512, 2048, 4096, 2048), "gelu", False, False),
    "linear gelu": ((512, 2048, 4096, 2048), "gelu", False, True),
    "linear swiglu": ((512, 2048, 2816, 2048), "swiglu", True, True),
}


@pytest.fixture
def torch(tmp_path, monkeypatch):
    monkeypatch.setattr(cubin_cache, "_chosen", tmp_path)
    yield pytest.importorskip("torch")
    prepared.forget()


def operands(torch, sizes, is_gated, is_linear):
    m, k, n1, n2 = sizes
    generator = torch.Generator("cuda").manual_seed(0)

    def made(rows, columns):
        sides = (columns, rows) if is_linear else (rows, columns)
        drawn = torch.randn(sides, generator=generator, device="cuda").mul_(rows**-0.5).to(torch.bfloat16)
        return drawn.t() if is_linear else drawn

    x = torch.randn((m, k), generator=generator, device="cuda").to(torch.bfloat16)
    return (x, made(k, n1), made(n1, n2)), {"gate": made(k, n1)} if is_gated else {}


@pytest.mark.parametrize("form", FORMS)
def test_the_fastest_is_right_kept_and_taken_by_another_process_at_once(torch, form, caplog, tmp_path):
    sizes, activation, is_gated, is_linear = FORMS[form]
    arrays, more = operands(torch, sizes, is_gated, is_linear)
    from wavesim_gpu.layers.torch_formula import MlpOperands, forward

    want = forward(MlpOperands(*arrays, activation=activation, **more)).float()
    caplog.set_level(logging.INFO, logger="wavesim_gpu")
    got = wavesim_gpu.mlp(*arrays, activation=activation, tune=True, **more)
    assert float((got.float() - want).norm() / want.norm()) < 1e-2
    found = mlp_calls.way_of(*arrays, activation=activation, **more)
    assert found.basis == "measured"
    assert 0 < found.predicted_ns <= found.library_ns
    assert "ways are timed" in caplog.text
    assert "left out" not in caplog.text
    (path,) = (tmp_path / "mlp").iterdir()
    again = wavesim_gpu.mlp(*arrays, activation=activation, tune=True, **more)
    assert bool((again == got).all())
    first, second = (in_another_process(form, tmp_path, may_compile=may) for may in (True, False))
    assert (first, second) == ("measured", "measured")
    assert path.exists()


def in_another_process(form, folder, *, may_compile):
    """By what such a process knows its way; where it may not compile and would, that."""
    code = f"""
import sys, torch
sys.path.insert(0, {__file__.rpartition("/")[0]!r})
from pathlib import Path
import wavesim_gpu
from test_gpu_tuning import FORMS, operands
from wavesim_gpu.layers.mlp import way_of
from wavesim_gpu.driver import cubin_cache, compiler
cubin_cache.use(Path({str(folder)!r}))
if not {may_compile}:
    compiler.build_and_keep = lambda request: sys.exit("compiled " + request.path.name)
sizes, activation, is_gated, is_linear = FORMS[{form!r}]
arrays, more = operands(torch, sizes, is_gated, is_linear)
wavesim_gpu.mlp(*arrays, activation=activation, **more)
torch.cuda.synchronize()
print(way_of(*arrays, activation=activation, **more).basis)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    return done.stdout.strip() or done.stderr


def test_an_interrupt_leaves_the_choice_as_it_was_and_no_memory_behind(torch, monkeypatch):
    cupy = pytest.importorskip("cupy")
    sizes, activation, is_gated, is_linear = FORMS["linear gelu"]
    arrays, more = operands(torch, sizes, is_gated, is_linear)
    wavesim_gpu.mlp(*arrays, activation=activation, **more)
    # Estimated, or, on a device whose products nobody has timed, the library's by default.
    before = mlp_calls.way_of(*arrays, activation=activation, **more)
    assert before.basis != "measured"

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(tuning, "interleaved_ns", interrupted)
    used = cupy.get_default_memory_pool().used_bytes()  # also by tests before this one
    with pytest.raises(KeyboardInterrupt):
        wavesim_gpu.mlp(*arrays, activation=activation, tune=True, **more)
    assert mlp_calls.way_of(*arrays, activation=activation, **more) == before
    wavesim_gpu.mlp(*arrays, activation=activation, **more)
    torch.cuda.synchronize()
    gc.collect()  # the traceback's frames
    assert cupy.get_default_memory_pool().used_bytes() < used + (64 << 20)
