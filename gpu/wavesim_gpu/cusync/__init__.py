"""Semaphores on the device: the headers that kernels include, and the memory behind them."""
