"""Grouped GEMMs and the sum after them, in descriptions and predictions."""

from pathlib import Path

from wavesim.work.grouped import Combine, GroupedGemm
from wavesim.work.grouped.law import GroupedCosts
from wavesim.work.kind import WorkKind
from wavesim.work.rows.law import StreamingCosts

FIELDS = Path(__file__).with_name("fields.toml")
GROUPED = WorkKind(GroupedGemm, FIELDS, ("tile_m", "tile_n"), "[rows, columns]", law=GroupedCosts)
COMBINE = WorkKind(Combine, FIELDS, ("tile_m",), "[tokens]", law=StreamingCosts)
