"""Simulate: the SimPy engine and its cost models."""
