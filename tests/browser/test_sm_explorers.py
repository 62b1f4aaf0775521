"""The latency and the bank explorer of notebooks 19 and 20 in JupyterLab, by keyboard."""

import pytest

pytestmark = [
    pytest.mark.browser,
    # Sockets of browser and server that end with the process are warned about at collection.
    pytest.mark.filterwarnings("default"),
]

BOTH = """from IPython.display import display
from wavesim.widgets import BankExplorer, LatencyExplorer

display(LatencyExplorer())
display(BankExplorer(stride=31))"""


def test_loads_in_flight_and_strides_follow_the_arrow_keys(lab, visit):
    visit.open(lab, lab.write("sm.ipynb", BOTH))
    assert visit.run_all() == []
    latency, banks = ".wavesim:has([aria-label*='in flight'])", ".wavesim:has([aria-label*='wavefront'])"
    warps = visit.slider("Warps on the SM")
    warps.first.wait_for()
    visit.await_label("4.0 KiB in flight: 27 % of the bandwidth", latency)
    warps.press("End")
    visit.await_label("32 KiB in flight: 100 % of the bandwidth. The memory is the limit", latency)
    visit.await_label("1 wavefront: 32 lanes in 32 banks", banks)
    visit.slider("Stride (words)").press("ArrowRight")
    visit.await_label("32 wavefronts: 1 of 32 banks serve 32 lanes", banks)
    assert visit.outside == []
    assert visit.console_errors == []
