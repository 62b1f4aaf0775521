"""The answer as one self-contained page: text, the SMs of each device, and who waits for whom."""

from pathlib import Path

from wavesim.safety.hang.answer import HangAnswer
from wavesim.view.hang_picture import sm_picture, waits_picture
from wavesim.view.page import Table, write_page

COLUMNS = ("operation", "device", "blocks there", "of", "SMs", "waits")
MOST_PICTURES = 8


def write_hang_page(path: str | Path, answer: HangAnswer) -> Path:
    """Writes the page. Raises `OutputError`; what was there before stays whole."""
    figures = [sm_picture(answer, layout) for layout in answer.layouts[:MOST_PICTURES]]
    if answer.edges:
        figures.append(waits_picture(answer))
    first, *notes = answer.lines
    return write_page(
        path, title="Why it hangs", lead=first, figures=figures, table=_table(answer), notes=notes
    )


def _table(answer: HangAnswer) -> Table | None:
    rows = [
        [
            holder["operation"],
            holder["device"] or "",
            f"{holder['blocks']:,}",
            f"{holder['of']:,}",
            f"{holder['sms']:,}",
            holder["waits"],
        ]
        for holder in answer.as_json()["holders"]
    ]
    return Table(COLUMNS, rows, caption="Who is there and waits") if rows else None
