"""Workloads that notebooks, tests and GPU runs share."""
