"""Names that figures in trace headers had before, and what they are called now.

Example: a trace simulated by an earlier version says "look_ns": 900 among its costs; it is read as "poll_ns".
"""

from typing import Any

COSTS = {
    "edge_ns": "prologue_epilogue_ns",
    "counter_ns": "tile_fetch_ns",
    "look_ns": "poll_ns",
    "signal_ns": "post_visibility_ns",
    "fork_ns": "multi_stream_ns",
    "seniority": "oldest_first_bias",
    "draws_by_sm": "fetches_by_sm",
}


def with_current_names(costs: Any) -> Any:
    """The costs of a header by their names of today; what is no table is left as it is."""
    return (
        {COSTS.get(name, name): value for name, value in costs.items()} if isinstance(costs, dict) else costs
    )
