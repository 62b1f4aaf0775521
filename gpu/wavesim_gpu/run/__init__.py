"""How a pipeline runs under a plan: operands, launches, timing, traces of the measured run."""
