"""Products across the GPUs of one host: tiles that leave for other GPUs as they are made.

Example: `SharedGemm(2048, 6144, 12288, Collective("all-reduce"))` on two GPUs is a GEMM whose tiles TMA
stores into the memory of the GPU that adds them up, and a few blocks beside it that add them as they arrive.
Stores and loads over NVLink, no multicast. `problem.py` says what is computed, `programs.py` launches it,
`groups.py` and `memory.py` say who drives which GPU and sees which memory.
"""
