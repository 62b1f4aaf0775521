"""The explorers of the labs and of notebook 14 in JupyterLab: each follows a slider that a key moves."""

import pytest

pytestmark = [
    pytest.mark.browser,
    # Sockets of browser and server that end with the process are warned about at collection.
    pytest.mark.filterwarnings("default"),
]

ALL = """from IPython.display import display
from wavesim.widgets import (ExpertsWhatIf, LaunchExplorer, LayerWhatIf, PeerExplorer, PlaceExplorer,
                             StayingWhatIf)

for explorer in (PlaceExplorer, LaunchExplorer, PeerExplorer, LayerWhatIf, StayingWhatIf, ExpertsWhatIf):
    display(explorer())"""
# What the picture says at first, the control, the key or the choice, and what the picture says then.
MOVES = (
    ("holding rows in clusters of 16", "Blocks of a cluster", "Home", "holding rows in clusters of 2 "),
    ("1,996 are lost", "Places in the pool", "End", "with 4,096 launches; at most"),
    ("its all-reduce, 2 GPUs", "GPUs", "End", "its all-reduce, 8 GPUs"),
    ("gpt3-145b-layer-attention, 512 tokens", "Tokens", "256", "gpt3-145b-layer-attention, 256 tokens"),
    ("blocks stay, barrier in every cycle: 32", "Batches in flight", "Home", "19.4 → 14.0 µs"),
    ("gate_up 9 × 112 tiles", "Skew (Zipf's exponent)", "Home", "gate_up 8 × 112 tiles"),
)
SAID = """words => [...document.querySelectorAll('.wavesim-drawn canvas')]
  .some(one => one.getAttribute('aria-label')?.includes(words))"""


def test_the_labs_explorers_follow_their_sliders(lab, visit):
    page = visit.page
    visit.open(lab, lab.write("explorers.ipynb", ALL))
    assert visit.run_all() == []
    for first, control, change, then in MOVES:
        page.wait_for_function(SAID, arg=first)
        assert not page.evaluate(SAID, then)
        if change.isdigit():
            page.get_by_role("combobox", name=control, exact=True).select_option(change)
        else:
            visit.slider(control).first.press(change)
        page.wait_for_function(SAID, arg=then)
    assert visit.outside == []
    assert visit.console_errors == []
