"""Our protocols forbid what is bad; each order, scope, fence and barrier is needed, or said not to be."""

import runpy
from pathlib import Path

import pytest

from wavesim.litmus.protocol import Protocol, protocols

ROOT = Path(__file__).parents[3]
PLAN_PARTS = {
    "KernelBoundary",
    "Semaphores",
    "DependentLaunch",
    "StreamPerStage",
    "StreamK",
    "Persistent",
    "Persistent, fused",
    "TilePerBlock with split-K",
    "two GPUs",
    "library calls",
}

each_protocol = pytest.mark.parametrize("protocol", protocols(), ids=lambda protocol: protocol.name)


@each_protocol
def test_what_is_bad_is_forbidden_unless_the_page_says_why_it_is_not(protocol: Protocol):
    assert protocol.outcomes
    assert protocol.is_safe != bool(protocol.allowed_because)
    assert bool(protocol.allowed_because) == bool(protocol.kept_by)


@each_protocol
def test_what_is_dropped_or_weakened_is_needed_unless_the_page_says_why_it_is_there(protocol: Protocol):
    if not protocol.is_safe:
        assert not protocol.spare
        return
    assert protocol.weaker
    spare = {str(form) for form, bad in protocol.weaker if bad is None}
    said = {str(form) for form, _ in protocol.weaker if protocol.reason(form)}
    assert spare == said
    unused = [start for start in protocol.spare if not any(name.startswith(start) for name in spare)]
    assert unused == []


@each_protocol
def test_the_code_that_a_protocol_stands_for_is_there(protocol: Protocol):
    assert protocol.files
    assert [file for file in protocol.files if not (ROOT / file).is_file()] == []


def test_the_page_is_as_the_model_says_today():
    written = (ROOT / "docs" / "memory-model.md").read_text(encoding="utf-8")
    page = runpy.run_path(str(ROOT / "tools" / "write_memory_model.py"))["memory_model_page"]()
    assert page == written, "run: .venv/bin/python tools/write_memory_model.py"


def test_every_part_of_a_plan_has_a_protocol():
    assert {protocol.plan for protocol in protocols()} >= PLAN_PARTS
    assert len({protocol.name for protocol in protocols()}) == len(protocols())
