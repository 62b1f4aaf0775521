"""Pages without a kernel: every widget shown as the picture it would draw, in the notebook's own output.

Example: a notebook is run once to be published; `show_static()` comes first, and where a reader with a
kernel would get sliders the page gets the canvas, with hovering, stepping and the theme still alive.
"""

from typing import Any

from IPython.core.getipython import get_ipython

from wavesim.errors import DescriptionError
from wavesim.widgets.advice_browser import AdviceBrowser
from wavesim.widgets.bank_explorer import BankExplorer
from wavesim.widgets.comparison_view import ComparisonView
from wavesim.widgets.drawn import DrawnWidget
from wavesim.widgets.latency_explorer import LatencyExplorer
from wavesim.widgets.launch_explorer import LaunchExplorer
from wavesim.widgets.layer_what_if import LayerWhatIf
from wavesim.widgets.occupancy_explorer import OccupancyExplorer
from wavesim.widgets.peer_explorer import PeerExplorer
from wavesim.widgets.place_explorer import PlaceExplorer
from wavesim.widgets.staying_what_if import StayingWhatIf
from wavesim.widgets.streams_explorer import StreamsExplorer
from wavesim.widgets.tuner_view import TunerView
from wavesim.widgets.what_if import WhatIf

SHOWN = (
    DrawnWidget,
    WhatIf,
    OccupancyExplorer,
    LatencyExplorer,
    BankExplorer,
    LaunchExplorer,
    PlaceExplorer,
    PeerExplorer,
    StreamsExplorer,
    TunerView,
    ComparisonView,
    AdviceBrowser,
    LayerWhatIf,
    StayingWhatIf,
)


def show_static() -> None:
    """From now on this kernel shows our widgets as HTML that needs no kernel.

    Raises `DescriptionError` outside IPython.
    """
    shell = get_ipython()
    if shell is None or shell.display_formatter is None:
        raise DescriptionError("show_static is for a notebook's kernel, and this is not IPython")
    for kind in SHOWN:
        shell.display_formatter.mimebundle_formatter.for_type(kind, _bundle)


def _bundle(widget: Any, **_: Any) -> dict[str, str]:
    return {"text/html": widget.html(), "text/plain": f"{type(widget).__name__} (a picture)"}
