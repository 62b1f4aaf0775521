"""The part of a page that a command writes, between two marks.

Example: between `<!-- streams: begin -->` and `<!-- streams: end -->` stands the table of measured programs;
the rest of the page is written by hand.
"""

from pathlib import Path

from wavesim.errors import RecordingError


def with_marked_block(page: Path, text: str, name: str, inner: str) -> str:
    """The page's text with `inner` between the marks of that name. Raises `RecordingError` without them."""
    marks = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    before, begin, rest = text.partition(marks[0])
    _, end, after = rest.partition(marks[1])
    if not begin or not end:
        raise RecordingError(f"{page}: the marks {' and '.join(marks)} are missing; put them back")
    return f"{before}{begin}\n{inner}\n{end}{after}"
