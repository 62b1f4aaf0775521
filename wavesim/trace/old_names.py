"""Names that figures in trace headers had before, and what they are called now.

Example: a trace simulated by an earlier version says "poll_ns": 900 among its costs; it is read as "poll_ns".
"""

from typing import Any

COSTS = {
    "prologue_epilogue_ns": "prologue_epilogue_ns",
    "tile_fetch_ns": "tile_fetch_ns",
    "poll_ns": "poll_ns",
    "post_visibility_ns": "post_visibility_ns",
    "multi_stream_ns": "multi_stream_ns",
    "oldest_first_bias": "oldest_first_bias",
    "fetches_by_sm": "fetches_by_sm",
}


def with_current_names(costs: Any) -> Any:
    """The costs of a header by their names of today; what is no table is left as it is."""
    return (
        {COSTS.get(name, name): value for name, value in costs.items()} if isinstance(costs, dict) else costs
    )
