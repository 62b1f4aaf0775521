"""Element-wise kernels: a bias, an activation or a gate in a pass of its own, and a copy."""
