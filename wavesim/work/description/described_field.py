"""A field of a description, as pages and error messages know it."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Field:
    """One field: `default` is "required" or what holds without it, `absence` what that costs in certainty.

    `example` is what to write.
    """

    name: str
    unit: str
    meaning: str
    default: str
    absence: str
    example: str
