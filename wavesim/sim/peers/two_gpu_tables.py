"""The measured tables of two GPUs: GEMMs, all-reduces, both in a row, in chunks, and with stores to the peer.

Example: of 2,048 x 6,144 x 12,288 the GEMM took 408 us, NCCL's all-reduce 216, one after the other 627.
"""

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from wavesim.safe_io.documents import read_toml

FILE = Path(__file__).parent / "measured" / "two_h200.toml"


@cache
def measured_tables() -> Mapping[str, Sequence[Mapping[str, int]]]:
    """By name, rows of named columns in us."""
    return {
        name: [dict(zip(table["columns"], row, strict=True)) for row in table["rows"]]
        for name, table in read_toml(FILE).items()
        if isinstance(table, dict)
    }


def measured_on() -> str:
    """On what, with what, and when."""
    return str(read_toml(FILE)["source"])
