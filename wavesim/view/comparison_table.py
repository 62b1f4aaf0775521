"""What Jupyter shows of a comparison: its table, and what it rests on below.

Example: a cell that ends with `compare(mlp, plans, device)` shows a row per plan with its predicted and its
measured time and gain; `pandas.DataFrame(comparison.records)` has the same numbers.
"""

from typing import Any

from wavesim.safe_io.escaping import Markup, element

TITLES = (
    "plan",
    "order",
    "predicted, µs",
    "gain, points",
    "from",
    "to",
    "measured, µs",
    "gain, points",
    "error",
)
SHOWN_NOTES = 2  # from what it was predicted, and what was measured where


def record_of(row: Any) -> dict[str, Any]:
    """The numbers of a row of a `wavesim.comparison.Comparison`, in the table's order, named with units.

    None is what was not measured.
    """
    measured = row.measured_points
    return {
        "plan": row.label,
        "order": row.order,
        "predicted_us": row.predicted_ns / 1e3,
        "predicted_points": row.predicted_points,
        "low_points": row.low,
        "high_points": row.high,
        "measured_us": None if row.measured_ns is None else row.measured_ns / 1e3,
        "measured_points": None if measured is None else measured.median,
        "error_points": row.error_points,
    }


def comparison_html(comparison: Any) -> Markup:
    """The table of such a comparison, where its numbers are from, and, folded away, how far to trust it."""
    head = element("tr", *(element("th", title) for title in TITLES))
    rows = (
        element("tr", *(element("td", _cell(name, value)) for name, value in record.items()))
        for record in comparison.records
    )
    notes = [element("li", note) for note in comparison.shown_notes]
    parts = (
        element("p", element("b", comparison.workload), ": gains over stream sync"),
        element("table", element("thead", head), element("tbody", *rows)),
        element("ul", *notes[:SHOWN_NOTES]),
        element("details", element("summary", "how far to trust it"), element("ul", *notes[SHOWN_NOTES:])),
    )
    return Markup("").join(parts)


def _cell(name: str, value: str | float | None) -> str:
    if value is None:
        return "–"  # a dash for what is not there
    if isinstance(value, str):
        return value
    return f"{value:,.1f}" if name.endswith("_us") else f"{value:+.1f}"
