"""Names that results and recordings are stored under: each means one backend and plan, and comes back."""

from dataclasses import replace

import pytest
from pretended_measurer import HOPPER, pretended

from wavesim.bench.blind_runs import as_measured, measured_word
from wavesim.bench.blind_sizes import BASELINE, BlindSize
from wavesim.bench.stored_kernels import all_kernels, kernels_named, stored_names
from wavesim.errors import DescriptionError
from wavesim.plan.parsing import plan_data
from wavesim.plan.plan import Plan, SemaphoreSync, StreamSync
from wavesim.plan.stream_k import StreamK
from wavesim_gpu.kernels.backends import BACKENDS, require_runs


@pytest.mark.parametrize(
    ("kernels", "word", "name"),
    [
        ("portable", "stream", "stream"),
        ("portable", "tile", "tile"),
        ("hopper", "stream", "persistent-stream"),
        ("hopper", "row", "persistent+streams+row"),
        ("hopper", "persistent:tile", "persistent:tile"),
        ("hopper-per-tile", "row", "row"),
        ("hopper-dependent", "stream", "persistent+pdl+boundary"),
        ("hopper-dependent", "row", "persistent+pdl+row"),
        ("hopper-per-tile-dependent", "stream", "pdl"),
        ("hopper-per-tile-dependent", "tile", "pdl+tile"),
        ("hopper-stream-k", "stream", "stream-k"),
        ("hopper-stream-k-dependent", "stream", "stream-k+pdl+boundary"),
    ],
)
def test_a_stored_name_is_a_plan_on_a_backend_and_back(kernels, word, name):
    stored = kernels_named(kernels)
    plan = stored.plan_of(word, "grouped:4")
    assert (plan.name, plan.order.name) == (name, "grouped:4")
    assert stored_names(stored.backend, plan) == (kernels, word)
    assert stored.backend in BACKENDS


def test_every_stored_name_is_run_by_its_backend():
    for name, stored in all_kernels().items():
        size = BlindSize(name, "gpt3-mlp", 384, ((128, 256), (128, 256)))
        require_runs(size.pipeline(), stored.plan_of(BASELINE, "row"))


def test_unknown_names_and_plans_without_one_are_refused():
    with pytest.raises(DescriptionError, match="kernels is 'fast'; there are portable, hopper, hopper-per"):
        kernels_named("fast")
    with pytest.raises(DescriptionError, match="on backend 'portable' has no stored name; add one to"):
        stored_names("portable", Plan(StreamK()))
    with pytest.raises(DescriptionError, match="on backend 'other' has no stored name"):
        stored_names("other", StreamSync())


def test_old_recordings_of_persistent_kernels_say_stream_and_are_read_as_what_ran(pretended_stream):
    persistent = BlindSize("hopper", "gpt3-mlp", 384, ((128, 256), (128, 256)))
    found = as_measured(persistent, "row", pretended_stream).header
    assert (found.plan, found.plan_data["schedule"]) == ("persistent-stream", "persistent")
    per_tile = BlindSize("hopper-per-tile", "gpt3-mlp", 384, ((128, 256), (128, 256)))
    assert as_measured(per_tile, "row", pretended_stream).header.plan == "stream"


@pytest.fixture
def pretended_stream():
    """A stream-sync trace without its plan, as recordings were stored."""
    trace = pretended(HOPPER, "row", BASELINE)
    return replace(trace, header=replace(trace.header, plan_data={}))


def test_the_word_of_a_measured_trace_is_that_of_its_size(pretended_stream):
    size = BlindSize("hopper", "gpt3-mlp", 384, ((128, 256), (128, 256)))
    for word in ("row", "tile", "pdl", "stream-k"):
        plan = size.plan(word, "row")
        header = replace(pretended_stream.header, plan=plan.name, plan_data=plan_data(plan))
        assert measured_word(replace(pretended_stream, header=header)) == word
    assert size.plan("row", "row") == kernels_named("hopper").plan_of("row", "row") != SemaphoreSync()
