"""The load that notebook 15 shows above its wait: the compiler at hand still moves it, and the twin's not."""

import json

from hoisted_load import listings

from wavesim.teaching.checked_kernels import HOISTED


def test_the_committed_listings_are_what_the_compiler_makes():
    committed = json.loads(HOISTED.read_text(encoding="utf-8"))
    assert committed.pop("arch") == "sm_90a"
    assert listings() == committed
