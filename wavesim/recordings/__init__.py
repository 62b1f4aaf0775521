"""Measurements that ship with wavesim, and their readers."""
