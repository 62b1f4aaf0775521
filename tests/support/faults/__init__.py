"""Failures brought about on purpose, to see whether every library call that runs out of time says so.

Example: `python -m faults --calls 100000 --out faults.json` holds the GPU's SMs with a
co-tenant at random moments, judges every result on the device and compares with what was reported.
"""
