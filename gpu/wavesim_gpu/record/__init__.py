"""Records kernels that are not ours: a header for CUDA C++, the same for Triton, and the way to a `Trace`.

Example: two lines in your kernel, a buffer of 64 bytes per tile, and out comes what our own runner gives.
`docs/record-your-kernel.md` shows the lines; `INCLUDE` is the folder to give to the compiler.
"""

from pathlib import Path

from wavesim_gpu.record.recording import Recording
from wavesim_gpu.record.tile_records import records_of, trace_of

INCLUDE = Path(__file__).parent

__all__ = ["INCLUDE", "Recording", "records_of", "trace_of"]
