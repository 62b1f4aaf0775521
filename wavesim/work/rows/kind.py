"""Row kernels in descriptions and predictions."""

from pathlib import Path

from wavesim.work.kind import WorkKind
from wavesim.work.rows import Copy, Norm, Softmax
from wavesim.work.rows.law import StreamingCosts

FIELDS = Path(__file__).with_name("fields.toml")
NORM = WorkKind(Norm, FIELDS, ("tile_m",), "[rows]", law=StreamingCosts)
SOFTMAX = WorkKind(Softmax, FIELDS, ("tile_m",), "[query rows]", law=StreamingCosts)
COPY = WorkKind(Copy, FIELDS, ("tile_m", "tile_n"), "[rows, columns]", law=StreamingCosts)
