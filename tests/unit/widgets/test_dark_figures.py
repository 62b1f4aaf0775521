"""The style that gives static figures their dark colours: every light one has a rule, others' have none."""

from wavesim.view.theme import DARK, LIGHT
from wavesim.widgets.words import dark_figures, style_sheet


def test_each_light_colour_gives_way_to_its_dark_one_as_fill_and_as_stroke():
    rules = dark_figures().splitlines()
    for light, dark in zip(LIGHT.stages, DARK.stages, strict=True):
        assert sum(light in rule and dark in rule for rule in rules) == 2
    assert any("rgb(17, 24, 39)" in rule and f"fill: {DARK.ink} " in rule for rule in rules)


def test_the_rules_hold_in_dark_pages_only_and_for_figures_on_our_paper():
    for rule in dark_figures().splitlines():
        assert rule.startswith(
            ':is(body[data-jp-theme-light="false"], body[data-vscode-theme-kind="vscode-dark"], '
            'body[data-vscode-theme-kind="vscode-high-contrast"])'
        )
        assert '.js-plotly-plot:has(.main-svg[style*="rgb(255, 255, 255)"])' in rule
    assert dark_figures() in style_sheet().value
