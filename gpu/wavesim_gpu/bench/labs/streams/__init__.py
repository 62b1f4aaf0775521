"""The streams lab on a GPU: `python -m wavesim_gpu.bench.labs.streams --out F` runs every example."""
