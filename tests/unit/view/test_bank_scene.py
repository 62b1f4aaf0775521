"""The bank explorer's picture: lanes, banks by wavefront, and a reduction's steps."""

from wavesim.view.sm_scenes import COLUMN, PATTERNS, ShownAccess, scene_of_access
from wavesim.widgets import BankExplorer


def test_words_of_a_bank_stand_in_the_order_of_their_wavefronts():
    found = scene_of_access(ShownAccess(stride=16))
    assert found["wavefronts"] == 16
    assert found["banks"][0] == [32 * i for i in range(16)]
    assert found["banks"][1] == []
    assert found["lanes"][:3] == [0, 16, 32]
    assert found["title"] == "16 wavefronts: 2 of 32 banks serve 32 lanes"
    assert scene_of_access(ShownAccess(stride=0))["title"] == "1 wavefront: all lanes read the same word"


def test_a_reductions_steps_say_who_adds():
    found = scene_of_access(ShownAccess("reduction v1", step=3))
    assert found["chosen"] == 2
    assert found["lanes"][:2] == [0, 8]
    assert [sum(step["active"]) for step in found["steps"]] == [128, 64, 32, 16, 8, 4, 2, 1]
    assert found["steps"][2]["words"] == "1 warp, 32 lanes, 8 wavefronts"
    assert None in scene_of_access(ShownAccess("reduction v0"))["lanes"]


def test_the_explorer_moves_with_its_controls_and_greys_out_the_others():
    explorer = BankExplorer(stride=2)
    explorer.stride.value = 32
    assert explorer.picture.scene["wavefronts"] == 32
    for pattern in PATTERNS:
        explorer.pattern.value = pattern
        is_tree = pattern.startswith("reduction")
        enabled = [not control.disabled for control in explorer.controls[1:]]
        assert enabled == [pattern == PATTERNS[0], pattern == COLUMN, is_tree]
        for step in range(1, 9):
            explorer.step.value = step
            assert bool(explorer.picture.scene["steps"]) == is_tree
    assert "banks" in str(explorer.html())
