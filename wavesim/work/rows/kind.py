"""Row kernels in descriptions and predictions."""

from pathlib import Path

from wavesim.work.kind import WorkKind
from wavesim.work.rows import Copy, Norm, Softmax

FIELDS = Path(__file__).with_name("fields.toml")
NORM = WorkKind(Norm, FIELDS, ("tile_m",), "[rows]")
SOFTMAX = WorkKind(Softmax, FIELDS, ("tile_m",), "[query rows]")
COPY = WorkKind(Copy, FIELDS, ("tile_m", "tile_n"), "[rows, columns]")
