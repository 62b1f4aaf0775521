"""Products across GPUs with a process per rank: by the measuring command, and as PyTorch operators.

With one GPU both processes have it in turns, so that memory is mapped by CUDA IPC as it is among GPUs.
"""

import json
import subprocess
import sys

import pytest

from wavesim_gpu.evaluation.two_gpus.turns import TOLERANCE
from wavesim_gpu.peers.groups import ProcessPeers

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.gpu

ROWS, K, N = 1024, 1408, 1536  # of one rank


@pytest.fixture(scope="module", params=[(0, 0), (0, 1)], ids=["one GPU", "two GPUs"])
def devices(request):
    if torch.cuda.device_count() <= max(request.param):
        pytest.skip("needs two GPUs of one host")
    return request.param


def line_of(devices, tmp_path, *options):
    """What the command adds to its file."""
    words = ["--commit", "test", "--devices", ",".join(map(str, devices)), "--out", tmp_path / "lines"]
    command = [sys.executable, "-m", "wavesim_gpu.evaluation.two_gpus", *words, *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads((tmp_path / "lines").read_text())


def test_replays_of_two_processes_under_skew_give_the_same_right_bits(devices, tmp_path):
    found = line_of(devices, tmp_path, "--only", "skew", "--calls", "100")
    assert found["different_bits"] == 0
    assert found["error"] < TOLERANCE["bf16"]


def test_a_process_that_ends_in_the_middle_is_named_by_the_one_that_is_left(devices, tmp_path):
    found = line_of(devices, tmp_path, "--only", "killed")
    assert "of rank 1" in found["message"]
    assert found["gpu_works"]


def linear_layers(rank, devices, meeting):
    """One rank of both operators, against the library's product in fp32."""
    import torch.distributed as dist  # in a process of its own

    from wavesim_gpu.runtime.device import require_cupy
    from wavesim_gpu.torch.parallel import _Calls

    torch.cuda.set_device(devices[rank])
    require_cupy().cuda.Device(devices[rank]).use()
    dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=2)

    def exchange(mine):
        told = [None, None]
        dist.all_gather_object(told, mine)
        return told

    calls = _Calls(ProcessPeers(rank, 2, exchange, may_share=True))
    for name, rows in (("row_parallel_linear", ROWS), ("column_parallel_linear", ROWS // 2)):
        for seed in range(2):
            # Both ranks make both operands: each knows what must come out.
            generator = torch.Generator("cuda").manual_seed(seed)
            pairs = [
                [
                    torch.randn(shape, generator=generator, device="cuda", dtype=torch.bfloat16)
                    for shape in ((rows, K), (N, K))
                ]
                for _ in range(2)
            ]
            x, w = pairs[rank]
            found = calls.run(name, x, w)
            torch.cuda.synchronize()
            if name == "row_parallel_linear":
                expected = sum(one.float() @ other.float().T for one, other in pairs)
            else:
                expected = torch.cat([one for one, _ in pairs]).float() @ w.float().T
            error = float((found.float() - expected).abs().max() / expected.abs().max())
            assert error < TOLERANCE["bf16"], (name, error)
    dist.barrier()


def test_linear_layers_over_a_process_group_are_right(devices, tmp_path):
    import torch.multiprocessing as processes  # only where there is PyTorch

    processes.spawn(linear_layers, (devices, f"{tmp_path}/meeting"), nprocs=2)
