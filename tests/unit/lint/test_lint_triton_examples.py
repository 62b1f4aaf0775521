"""The Triton kernels of gpu/examples, compiled for four architectures: what lint says of each."""

import pytest
from lint_cases import cases
from lint_exam import result_of

EXAMPLES = [case for case in cases() if case.template.startswith("gpu/examples/")]
# One side of a dependent launch, whose other side is in another file.
UNKNOWN = {"triton.matmul_pdl_up", "triton.synchronised_up"}
# Says that it has started, by an atomic of Triton's usual order, after other threads began a record.
FALSE_ALARMS = {"triton.recorded_up"}


def test_every_example_of_a_tile_sync_in_triton_is_there():
    assert {case.source.stem for case in EXAMPLES} == {"triton_pair", "triton_matmul", "synchronised_triton"}
    assert all(case.source.exists() for case in EXAMPLES)
    assert len(EXAMPLES) == 14


@pytest.mark.parametrize("case", EXAMPLES, ids=lambda case: case.name)
def test_an_example_is_right_but_for_what_is_known(case):
    said = "unknown" if case.name in UNKNOWN else "false alarm" if case.name in FALSE_ALARMS else "right"
    assert result_of(case).verdict == said
