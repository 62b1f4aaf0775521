"""`python -m wavesim_gpu.bench.kinds.conv_bench --out FILE`: convolutions, ours and PyTorch's.

Example: two 3 x 3 convolutions of 128 channels at batch 8 by our kernels under stream sync, dependent launch
and semaphores, beside cuDNN's, channels last, with `cudnn.benchmark`. Each candidate's results are compared
with an fp32 reference on poisoned outputs; then all run as CUDA graphs in turns, and the fastest of each
class again, for the rounds that are reported. `--only "pair batch 1"` measures those with all these words;
after `--seconds` no case is begun.
"""

import sys

from wavesim.safe_io.program import run_program
from wavesim_gpu.bench.kinds.conv_cases import cases_named
from wavesim_gpu.bench.kinds.graphs import graphs_command


def main(words: list[str] | None = None) -> int:
    """Measures single convolutions, pairs and chains."""
    return graphs_command("conv_bench", words, __doc__, cases_named)


if __name__ == "__main__":
    sys.exit(run_program("conv_bench", main))
