"""For PyTorch: the MLP as an operator, a module and `optimize`, which swaps a model's MLPs; a decode step in
one launch, `decode`; a layer of experts, `moe`; linear layers and whole decoders over several GPUs,
`parallelize`.

Example: `print(wavesim_gpu.torch.optimize(model))` lists what it swapped and what that is predicted to gain;
`wavesim_gpu.torch.restore(model)` undoes it. Importing this needs PyTorch, and no GPU.
"""

from wavesim_gpu.torch.decoding import DecodeStep, decode
from wavesim_gpu.torch.direct import mlp
from wavesim_gpu.torch.expert_layers import check_moe, moe
from wavesim_gpu.torch.modules import Mlp
from wavesim_gpu.torch.parallel import tune_parallel_linear
from wavesim_gpu.torch.report import OptimizeReport
from wavesim_gpu.torch.swap import optimize, restore
from wavesim_gpu.torch.tensor_parallel import ParallelReport, parallelize

__all__ = [
    "DecodeStep",
    "Mlp",
    "OptimizeReport",
    "ParallelReport",
    "check_moe",
    "decode",
    "mlp",
    "moe",
    "optimize",
    "parallelize",
    "restore",
    "tune_parallel_linear",
]
