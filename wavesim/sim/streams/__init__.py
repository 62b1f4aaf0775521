"""CUDA streams: what they promise, what queues and copy engines add, and programs of them, simulated."""
