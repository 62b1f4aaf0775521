"""Text tables of commands and objects: cells in columns as wide as their widest.

Example: `in_columns([("M", "gain"), ("1024", "+2.1")])` is "   M  gain" and "1024  +2.1".
"""

from collections.abc import Container, Sequence


def in_columns(rows: Sequence[Sequence[str]], left: Container[int] = ()) -> list[str]:
    """A line per row, two blanks between columns; those of `left` to the left, all others to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            text.ljust(width) if place in left else text.rjust(width)
            for place, (text, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    ]
