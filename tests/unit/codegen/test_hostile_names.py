"""No text of a description reaches generated CUDA but as a comment or as a name of its own."""

import re

import pytest
from hostile_names import HOSTILE, INJECTED, MEMBERS, chain, plan_named, renamed, tokens
from hypothesis import given, settings
from hypothesis import strategies as st

from wavesim.codegen.cuda import generate, stage_header
from wavesim.codegen.names import Names, namespace_of, own_words
from wavesim.errors import DescriptionError
from wavesim.model.device import load
from wavesim.plan.order import Grouped
from wavesim.plan.plan import SemaphoreSync, StreamSync
from wavesim.plan.policy import RowSync, TileSync
from wavesim.safe_io.escaping import LONGEST_WORD, cuda_comment, is_reserved, literal
from wavesim.workloads.catalogue import WORKLOADS, workload

H200 = load("h200")
PLAIN = ("alpha", "beta", "gamma")
NEUTRAL = chain(PLAIN, "neutral")
NAMES = st.one_of(st.sampled_from(HOSTILE), st.text(max_size=40), st.text("ab_ -\\\n?/*", max_size=12))


SIZES = st.sampled_from(["constant", "runtime"])
STAGES = st.lists(NAMES, min_size=3, max_size=3, unique=True)


@settings(deadline=None, max_examples=60)
@given(STAGES, NAMES, NAMES, NAMES, SIZES)
def test_whatever_the_names_the_compiler_sees_the_same_but_for_identifiers(
    stages, name, policy, order, sizes
):
    """With sizes at run time orders and policies have formulas, and so names of their own."""
    pipeline = chain(tuple(stages), name)
    hostile = plan_named(policy, order) if sizes == "constant" else SemaphoreSync()
    plain = plan_named("policy", "order") if sizes == "constant" else SemaphoreSync()
    found, expected = (
        tokens(generate(*case, H200, namespace="space", sizes=sizes))
        for case in ((pipeline, hostile), (NEUTRAL, plain))
    )
    assert renamed(found, pipeline, NEUTRAL) == expected
    for old, neutral in zip(stages, PLAIN, strict=True):
        own, other = stage_header(pipeline, hostile, old), stage_header(NEUTRAL, plain, neutral)
        assert tokens(own.text) == tokens(other.text)


@pytest.mark.parametrize("sizes", ["constant", "runtime"])
def test_every_word_of_a_header_is_kept_from_stages(sizes):
    """Else a stage of that name would hide it: the words that `own_words` lists are all."""
    plans = [SemaphoreSync(TileSync(), order=Grouped(2)), SemaphoreSync(RowSync()), StreamSync()]
    plans += [plan_named("policy", "order")] if sizes == "constant" else []
    names = Names.of(NEUTRAL)
    given_names = {"space", *names.stages.values(), *names.edges.values()}
    given_names |= {f"{before}{stage}" for stage in PLAIN for before in MEMBERS}
    for plan in plans:
        code = (
            token for token in tokens(generate(NEUTRAL, plan, H200, "space", sizes=sizes)) if token[0] != '"'
        )
        words = {word for word in code if word[0].isalpha()} - given_names - {"first", "value"}
        for word in words:
            pipeline = chain((word, "b", "c"), "pipeline")
            assert Names.of(pipeline).stage(word) == f"named_{word}", word


@settings(deadline=None)
@given(STAGES)
def test_names_are_distinct_short_and_not_reserved(stages):
    names = Names.of(chain(tuple(stages), "pipeline"))
    words = [*names.stages.values(), *names.edges.values()]
    assert len(set(words)) == len(words)
    for word in words:
        assert re.fullmatch(r"[A-Za-z][A-Za-z0-9]*(_[A-Za-z0-9]+)*", word)
        assert len(word) <= LONGEST_WORD + len("named_") + len("_2")
        assert not is_reserved(word)
        assert word not in own_words()


@settings(deadline=None)
@given(NAMES)
def test_a_comment_stays_one(text):
    for line in (f"// {cuda_comment(text)}", f"/* {cuda_comment(text)} */"):
        assert tokens(f"before\n{line}\nafter") == ["before", "after"]
        assert len(f"{line}\n".splitlines()) == 1


def test_names_that_are_words_already_stay_as_they_are():
    for name in WORKLOADS:
        pipeline = workload(name)
        for stage in pipeline.stages:
            assert Names.of(pipeline).stage(stage.name) == re.sub(r"\W", "_", stage.name)
        assert namespace_of(pipeline.name) == re.sub(r"\W", "_", pipeline.name)


def test_a_stage_that_is_called_like_a_dependency_keeps_its_name_and_the_dependency_gets_another():
    names = Names.of(chain(("a", "b", "a_to_b"), "pipeline"))
    assert names.stage("a_to_b") == "a_to_b"
    assert names.edge(("a", "b")) == "a_to_b_2"


def test_a_policys_name_does_not_add_a_kernel():
    text = generate(chain(PLAIN, "pipeline"), plan_named(f"row\n{INJECTED}", f"row\r{INJECTED}"), H200)
    assert "injected" in text
    assert "injected" not in tokens(text)


@pytest.mark.parametrize("number", [2**31, -(2**31), 10**400, "1", 1.0, None])
def test_a_number_that_is_no_int_of_cpp_is_refused(number):
    with pytest.raises(DescriptionError, match="it must be an integer below 2,147,483,648"):
        literal(number)


def test_a_group_taller_than_the_grid_does_not_overflow():
    tall = generate(NEUTRAL, SemaphoreSync(order=Grouped(2**31 - 1)), H200)
    assert "2147483647 *" not in tall
    assert "smaller(2147483647, rows)" in tall


def test_words_of_cpp_and_of_the_header_get_a_prefix():
    pipeline = chain(("int", "Tile", "a-b"), "namespace")
    text = generate(pipeline, StreamSync(), H200)
    assert "struct named_int {" in text
    assert "struct named_Tile {" in text
    assert "struct a_b {" in text
    assert "namespace named_namespace {" in text
