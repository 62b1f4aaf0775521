"""Laboratories: one question each, with its description, costs and simulation in one place.

Example: `wavernn` has the five ways to run a network whose kernel stays on its SMs; `waiting_places` says
what a semaphore would cost elsewhere than in global memory.
"""
