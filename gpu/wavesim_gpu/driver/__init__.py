"""Compile, load, launch, time: CUDA as the rest of wavesim_gpu uses it."""
