"""Tuning: candidate plans, their simulation in sweeps, the fastest."""
