"""The streams lab on a GPU: `python -m wavesim_gpu.evaluation.streams_lab --out F` runs every example."""
