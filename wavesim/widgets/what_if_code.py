"""A what-if's setting as a line of Python, and as a link that opens it with nothing installed.

Example: the slider at 768 tokens is `WhatIf(tokens=768)`. On the site of `make lite` it is the console's page
with these lines behind `?code=`, which the browser runs.
"""

from dataclasses import fields
from urllib.parse import urlencode

from wavesim.errors import DescriptionError
from wavesim.safe_io.bounds import shown
from wavesim.widgets.controls import start_scenario
from wavesim.widgets.scenario import Scenario

CONSOLE = "repl/index.html"  # of a JupyterLite site


def code_of(scenario: Scenario) -> str:
    """The call that opens the what-if at this setting; "" for kernels that are in no catalogue."""
    if scenario.given is not None:
        return ""
    start = start_scenario(workload=scenario.workload)
    usual = start_scenario(workload=scenario.workload, device=scenario.device)
    said = {"workload": Scenario().workload, "device": start.device}
    words = [
        f"{item.name}={getattr(scenario, item.name)!r}"
        for item in fields(scenario)
        if getattr(scenario, item.name) != said.get(item.name, getattr(usual, item.name))
    ]
    return f"WhatIf({', '.join(words)})"


def address_of(scenario: Scenario, site: str) -> str:
    """The link to this setting on a site that `make lite` built, given the address of its folder.

    Raises `DescriptionError` for an address that is none of a web page, and for kernels in no catalogue.
    """
    code = code_of(scenario)
    if not code:
        raise DescriptionError("these kernels are in no catalogue, so that no link opens them; save the page")
    if not site.startswith(("http://", "https://")):
        raise DescriptionError(
            f"site is {shown(site)}; give its address, such as https://example.org/wavesim"
        )
    lines = f"from wavesim.widgets import WhatIf\n{code}"
    return f"{site.rstrip('/')}/{CONSOLE}?{urlencode({'kernel': 'python', 'toolbar': 1, 'code': lines})}"
