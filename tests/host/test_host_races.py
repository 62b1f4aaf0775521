"""The primitives and what is built of them, under ThreadSanitizer: right, and each order is needed."""

import json
import shutil
from functools import cache

import pytest
from host_long_run import FILES, RESULT, RUN, sources, sources_hash
from host_programs import DROPPED, ELSEWHERE, PROGRAMS, Result, build_program, run
from host_sources import FOLDERS, ROOT, instructions, is_left_out, on_host, replacements

OPERATIONS = 150_000
TESTED = ("ring", "row", "tile", "decode", "conv", "split", "short", "cluster")


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    if shutil.which("g++") is None:
        pytest.skip("no g++ with libtsan")
    return cache(lambda name: build_program(name, tmp_path_factory.mktemp(name)))


@pytest.mark.slow
@pytest.mark.parametrize("name", TESTED)
def test_blocks_that_wait_and_post_have_no_race_and_right_results(programs, name):
    result = run(programs(name), OPERATIONS, seed=1)
    assert result == Result(result.rounds, result.operations, wrong=0, aborted=0, races=())
    assert result.operations >= OPERATIONS
    assert result.rounds > 5


@pytest.mark.slow
@pytest.mark.parametrize(("name", "dropped"), DROPPED)
def test_each_order_barrier_and_wait_that_is_dropped_is_reported(programs, name, dropped):
    assert run(programs(name), OPERATIONS, seed=1, dropped=dropped).races


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "dropped"),
    [("row", "add_release whole"), ("split", "store_release whole"), ("cluster", "store_release whole")],
)
def test_waits_for_posts_that_never_come_give_up_without_a_race_but_the_known_ones(programs, name, dropped):
    result = run(programs(name), OPERATIONS, seed=1, dropped=dropped)
    assert (result.aborted, result.races) == (1, ())


def test_every_instruction_that_orders_is_dropped_by_some_test_or_shown_elsewhere():
    ordering = {
        one.function
        for file in sources()
        for one in instructions(file.read_text())
        if one.orders and "griddepcontrol" not in one.text
    }
    barriers = {
        *("begin", "wait", "wait_for", "finish", "wgmma_wait"),
        *("for_each_tile", "is_last_split", "decode"),
        *("accumulate", "reduce_splits", "halo"),
    }
    assert ordering == {dropped.split()[0] for _, dropped in DROPPED} - barriers | set(ELSEWHERE)


def test_the_long_run_was_over_these_sources_and_had_no_report():
    found = json.loads(RESULT.read_text())
    assert found["sources"] == sources_hash(), f"run {RUN} again: the sources have changed"
    assert set(found["programs"]) == set(PROGRAMS)
    assert all((one["races"], one["wrong"]) == (0, 0) for one in found["programs"].values())
    assert sum(one["operations"] for one in found["programs"].values()) >= 10**8


def test_the_long_run_knows_the_files_of_all_programs():
    assert {f"{program.source}.cpp" for program in PROGRAMS.values()} <= set(FILES)


def test_the_programs_that_drop_something_are_built():
    assert {name for name, _ in DROPPED} <= set(TESTED) <= set(PROGRAMS)


def test_only_asm_statements_and_shared_variables_differ_between_host_and_gpu():
    """What is left of every header when these, and what stands in their place, are taken out."""
    for name, root in FOLDERS.items():
        for file in (root / name).rglob("*.cuh"):
            if is_left_out(file.relative_to(root)):
                continue
            source = file.read_text()
            found = replacements(source)
            count = sum(source.count(word) for word in ("asm volatile(", "asm(", "__shared__ "))
            assert count == len(found), file
            rest, at = [], 0
            for one in found:
                rest.append(source[at : one.begin])
                at = one.end
            host = on_host(source)
            for text in [*rest, source[at:]]:
                assert text in host
            assert host.count("host::ptx<") == len(instructions(source))


def test_the_page_of_the_memory_model_names_all_that_is_dropped():
    page = (ROOT / "docs" / "memory-model.md").read_text()
    assert not [
        name for name in [*ELSEWHERE, *(dropped for _, dropped in DROPPED)] if f"`{name}`" not in page
    ]
