"""The primitives and what is built of them, under ThreadSanitizer: right, and each order is needed."""

import shutil

import pytest
from host_programs import PLANS, Result, build_pipeline, run
from host_sources import FOLDERS, ROOT, instructions, on_host

OPERATIONS = 200_000
# What is dropped, under which plan: an order of an instruction by its function, or a barrier by its own.
DROPPED = {
    "add_release": "row",
    "store_release": "tile",
    "load_acquire": "row",
    "acquire_fence": "tile",
    "fetch_add_acq_rel acquire": "row",
    "fetch_add_acq_rel release": "row",
    "begin": "tile",
    "wait": "row",
    "wait_for": "row",
    "finish": "tile",
}


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    if shutil.which("g++") is None:
        pytest.skip("no g++ with libtsan")
    return {plan: build_pipeline(plan, tmp_path_factory.mktemp(plan)) for plan in PLANS}


@pytest.mark.slow
@pytest.mark.parametrize("plan", PLANS)
def test_pipelines_of_blocks_that_wait_and_post_have_no_race_and_right_sums(programs, plan):
    result = run(programs[plan], OPERATIONS, seed=1)
    assert result == Result(result.rounds, result.operations, wrong=0, aborted=0, races=())
    assert result.operations >= OPERATIONS
    assert result.rounds > 100


@pytest.mark.slow
@pytest.mark.parametrize("dropped", DROPPED)
def test_each_order_and_barrier_that_is_dropped_is_reported(programs, dropped):
    assert run(programs[DROPPED[dropped]], OPERATIONS, seed=1, dropped=dropped).races


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_waits_for_posts_that_never_come_give_up_without_a_race_but_the_known_one(programs, seed):
    result = run(programs["row"], OPERATIONS, seed=seed, dropped="add_release whole")
    assert (result.aborted, result.races) == (1, ())


def test_every_instruction_that_orders_among_the_primitives_is_dropped_by_some_test():
    source = (ROOT / "wavesim" / "codegen" / "semaphore.cuh").read_text()
    ordering = {one.function for one in instructions(source) if one.orders}
    assert ordering == {name.split()[0] for name in DROPPED} - {"begin", "wait", "wait_for", "finish"}


def test_only_asm_statements_differ_between_host_and_gpu():
    """What is left of every header when its asm statements, and the calls in their place, are taken out."""
    for name, root in FOLDERS.items():
        for file in (root / name).rglob("*.cuh"):
            if file.name == "wgmma.cuh":  # operands in macros; shadow/ has another
                continue
            source = file.read_text()
            found = instructions(source)
            assert source.count("asm volatile(") + source.count("asm(") == len(found), file
            rest, at = [], 0
            for one in found:
                rest.append(source[at : one.begin])
                at = one.end
            host = on_host(source)
            for text in [*rest, source[at:]]:
                assert text in host
            assert host.count("host::ptx<") == len(found)
