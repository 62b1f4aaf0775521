"""Colours, fonts and hatches of every figure, light and dark.

Example: the producer is blue and the consumer orange on every figure, in both themes; waiting is
grey with a back-slash hatch and idle pale with a slash hatch, so that neither is told by colour alone.
Contrast and colour-blind distances were checked (Machado simulation, CIEDE2000).
"""

from dataclasses import dataclass, fields

from wavesim.errors import DescriptionError

FONT = "Inter, 'Segoe UI', 'Helvetica Neue', Arial, sans-serif"


@dataclass(frozen=True)
class Theme:
    """A palette. `stages` colours the stages in launch order and `stage_text` is legible on each."""

    name: str
    background: str
    ink: str
    muted: str
    grid: str
    stages: tuple[str, ...]
    stage_text: tuple[str, ...]
    waiting: str
    waiting_hatch: str
    idle: str
    idle_hatch: str
    good: str
    bad: str
    card: str

    def stage_colour(self, index: int) -> str:
        """The colour of the stage with this launch index; beyond the palette it starts again."""
        return self.stages[index % len(self.stages)]

    def text_on(self, index: int) -> str:
        """The colour of text on that stage's tiles."""
        return self.stage_text[index % len(self.stage_text)]

    def translucent(self, colour: str, alpha: float) -> str:
        """A #RRGGBB colour as rgba()."""
        red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
        return f"rgba({red},{green},{blue},{alpha:g})"


LIGHT = Theme(
    name="light",
    background="#FFFFFF",
    ink="#111827",
    muted="#6B7280",
    grid="#E5E7EB",
    stages=("#2F6FDE", "#D9730D", "#0B7A66", "#B03A8C", "#6B2A0A", "#30A67F", "#15157A", "#7A5C00"),
    stage_text=("#FFFFFF", "#241200", "#FFFFFF", "#FFFFFF", "#FFFFFF", "#04231C", "#FFFFFF", "#FFFFFF"),
    waiting="#9AA3B2",
    waiting_hatch="#E5E9F0",
    idle="#EEF1F5",
    idle_hatch="#C6CDD8",
    good="#0B7A66",
    bad="#B03A8C",
    card="#F7F8FA",
)

DARK = Theme(
    name="dark",
    background="#111827",
    ink="#F3F4F6",
    muted="#9CA3AF",
    grid="#273244",
    stages=("#5B9BFF", "#FFB454", "#2ED3B0", "#F7A8E0", "#8E5C29", "#F87171", "#3E63DD", "#D1056B"),
    stage_text=("#0B1220", "#241200", "#04231C", "#2A0A22", "#FFFFFF", "#2A0505", "#FFFFFF", "#FFFFFF"),
    waiting="#727D8E",
    waiting_hatch="#B4BDCA",
    idle="#1B2536",
    idle_hatch="#3B475C",
    good="#2ED3B0",
    bad="#F7A8E0",
    card="#182133",
)


def counterparts(first: Theme, second: Theme) -> dict[str, str]:
    """For each colour of one theme the other's in the same role, as #RRGGBB and as the start of rgba()."""
    roles = [f.name for f in fields(Theme) if f.name != "name"]
    pairs: dict[str, str] = {}
    for role in reversed(roles):  # the first roles win where two share a colour
        ours, theirs = getattr(first, role), getattr(second, role)
        both = zip(ours, theirs, strict=True) if isinstance(ours, tuple) else [(ours, theirs)]
        for colour, counterpart in both:
            pairs[colour] = counterpart
            pairs[first.translucent(colour, 1)[:-2]] = second.translucent(counterpart, 1)[:-2]
    return pairs


THEMES = {theme.name: theme for theme in (LIGHT, DARK)}


def find_theme(theme: str | Theme) -> Theme:
    """The theme of that name. Raises `DescriptionError` for an unknown one."""
    if isinstance(theme, Theme):
        return theme
    if theme not in THEMES:
        raise DescriptionError(f"theme is {theme!r}; known are {', '.join(THEMES)}")
    return THEMES[theme]
