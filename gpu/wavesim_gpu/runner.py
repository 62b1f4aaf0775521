"""Where an installed wavesim looks for this package's runner."""

from wavesim_gpu.run.runner import CupyRunner

__all__ = ["CupyRunner"]
