"""Describe: devices, kernels, dependencies, orders, policies, plans."""
