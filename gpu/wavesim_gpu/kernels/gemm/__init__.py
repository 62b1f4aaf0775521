"""GEMM kernels: for every GPU from sm_80 on, and for sm_90 with TMA and wgmma."""
