"""Sizes from outside, bounded before they cost work or memory.

Example: `whole("tokens", "²")` is no number here, though Python's `isdigit` takes it for one; a number of
400 digits is refused by its length before it is converted.
"""

from typing import Any

from wavesim.errors import DescriptionError

MOST_DIGITS = 19


def whole(name: str, value: Any, least: int = 0, most: int = 2**63 - 1) -> int:
    """An integer from `least` to `most`, or ASCII digits that are one. Raises `DescriptionError`."""
    shown = repr(value)
    shown = shown if len(shown) <= 40 else f"{shown[:37]}..."
    number = _parsed(value)
    if number is None:
        raise DescriptionError(f"{name} is {shown}; it must be an integer from {least:,} to {most:,}")
    if not least <= number <= most:
        raise DescriptionError(f"{name} is {shown}; it must be from {least:,} to {most:,}")
    return number


def _parsed(value: Any) -> int | None:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if not isinstance(value, str):
        return None
    digits = value.removeprefix("-")
    is_number = digits.isascii() and digits.isdigit() and len(digits) <= MOST_DIGITS
    return int(value) if is_number else None
