"""The what-if on a layer in JupyterLab by keyboard: an edge gets a policy, then the plan has none."""

import pytest

pytestmark = [
    pytest.mark.browser,
    # Sockets of browser and server that end with the process are warned about at collection.
    pytest.mark.filterwarnings("default"),
]

CHAIN = """from wavesim.widgets import LayerWhatIf

LayerWhatIf(model="gpt3-145b", tokens=512)"""
SAYS = "words => document.querySelector('.wavesim [role=status]')?.textContent.includes(words)"


def test_an_edge_is_switched_by_its_menu_and_a_plan_without_semaphores_has_none(lab, visit):
    visit.open(lab, lab.write("layer.ipynb", CHAIN))
    assert visit.run_all() == []
    page = visit.page
    edge, plan = (page.get_by_label(name, exact=True) for name in ("qkv-attention", "Plan"))
    edge.wait_for()
    edge.focus()
    page.keyboard.press("End")
    page.wait_for_function(SAYS, arg="(qkv-attention=grid)")
    plan.focus()
    page.keyboard.press("End")
    page.wait_for_function(SAYS, arg="+0.0 points")
    assert page.get_by_label("qkv-attention", exact=True).is_disabled()
    assert visit.outside == []
    assert visit.console_errors == []
