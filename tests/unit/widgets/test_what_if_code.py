"""The line of Python and the link that open a what-if at its setting."""

from urllib.parse import parse_qs, urlparse

import pytest

from wavesim.errors import DescriptionError
from wavesim.model.device import default_device, load
from wavesim.predict.defaults import find_costs
from wavesim.predict.recommendation import verdict_on
from wavesim.widgets.scenario import GivenKernels
from wavesim.widgets.what_if import ADVICE, WhatIf, address_of, code_of, start_scenario
from wavesim.workloads.figure_one import toy

SETTINGS = {
    "WhatIf()": {},
    "WhatIf(tokens=768, policy='tile')": {"tokens": 768, "policy": "tile"},
    "WhatIf(device='h100')": {"device": "h100"},
    "WhatIf(device='h100', sm_count=100)": {"device": "h100", "sm_count": 100},
    "WhatIf(workload='toy', wait_kernel=False, head_start=2)": {
        "workload": "toy",
        "wait_kernel": False,
        "head_start": 2,
    },
}


@pytest.mark.parametrize("code", SETTINGS)
def test_the_line_says_what_differs_from_the_start_and_opens_the_same_setting(code):
    scenario = start_scenario(**SETTINGS[code])
    assert code_of(scenario) == code
    assert eval(code, {"WhatIf": start_scenario}) == scenario  # noqa: S307  # the line that was just written


def test_the_link_carries_the_line_to_the_sites_console():
    link = urlparse(address_of(start_scenario(tokens=768), "https://example.org/wavesim/"))
    assert link.path == "/wavesim/repl/index.html"
    assert parse_qs(link.query)["code"] == ["from wavesim.widgets import WhatIf\nWhatIf(tokens=768)"]


def test_what_no_link_opens_is_said():
    device = default_device()
    given = GivenKernels(toy(), device, find_costs(toy(), device)).scenario()
    assert code_of(given) == ""
    with pytest.raises(DescriptionError, match="in no catalogue"):
        address_of(given, "https://example.org")
    with pytest.raises(DescriptionError, match=r"'example.org'; give its address"):
        address_of(start_scenario(), "example.org")


def test_the_plan_to_run_is_the_one_that_every_command_names():
    explorer = WhatIf(workload="toy")
    assert explorer.recommendation.best == verdict_on(toy(), load("toy")).best
    assert explorer._other_sizes()[-1] == ADVICE
