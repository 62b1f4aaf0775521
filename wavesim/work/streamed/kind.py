"""Products that stream their weights, in descriptions and predictions."""

from pathlib import Path

from wavesim.work.kind import WorkKind
from wavesim.work.rows.law import StreamingCosts
from wavesim.work.streamed import StreamedProduct

STREAMED = WorkKind(
    StreamedProduct, Path(__file__).with_name("fields.toml"), ("tile_n",), "[weight rows]", law=StreamingCosts
)
