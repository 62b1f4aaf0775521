"""HTML and SVG elements as text; what is not markup already is escaped, here and nowhere else.

Example: `element("text", "a < b", x=3.0, class_="muted")` is `<text x="3" class="muted">a &lt; b</text>`.
"""

from html import escape


class Markup(str):
    """Text that is markup already; whatever else goes into an element is escaped."""

    __slots__ = ()


def element(tag: str, *children: str, **attributes: str | float | None) -> Markup:
    """One element. Attributes: `class_` is class, `stroke_width` stroke-width; those of None are left out."""
    named = "".join(
        f' {name.rstrip("_").replace("_", "-")}="{_value(value)}"'
        for name, value in attributes.items()
        if value is not None
    )
    inside = "".join(child if isinstance(child, Markup) else escape(child) for child in children)
    return Markup(f"<{tag}{named}>{inside}</{tag}>")


def _value(value: str | float) -> str:
    """An attribute's text: pixels to a hundredth."""
    return escape(value) if isinstance(value, str) else f"{value:.2f}".rstrip("0").rstrip(".")
