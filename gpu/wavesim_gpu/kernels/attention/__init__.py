"""Attention kernels: prefill, decode, and the dropout that they share."""
