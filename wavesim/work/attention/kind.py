"""Attention in descriptions and predictions: fused over a prompt, of one query a sequence, by heads."""

from pathlib import Path

from wavesim.work.attention import Attention
from wavesim.work.attention.decode import AttentionDecode
from wavesim.work.attention.head_product import HeadProduct
from wavesim.work.attention.law import AttentionCosts
from wavesim.work.kind import WorkKind
from wavesim.work.rows.law import DecodeCosts

FIELDS = Path(__file__).with_name("fields.toml")
ATTENTION = WorkKind(Attention, FIELDS, ("tile_m", "tile_n"), "[query rows, keys]", law=AttentionCosts)
DECODE = WorkKind(AttentionDecode, FIELDS, ("tile_n",), "[keys]", by_device="splits", law=DecodeCosts)
HEAD_PRODUCT = WorkKind(HeadProduct, FIELDS, ("tile_m", "tile_n", "tile_k"), "[query rows, columns, k-block]")
