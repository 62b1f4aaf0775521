"""What tuning tries of a layer: attention's orders, single edges, products for chains, and nothing fused."""

from wavesim.codegen.orders import order_sets
from wavesim.model import device as devices
from wavesim.plan.semaphores import edges_of
from wavesim.tuning.candidates import boundary_candidates, policy_choices, semaphore_candidates
from wavesim.tuning.search import chained_variants
from wavesim.workloads.layer_backends import is_chained, is_layer, with_backends, with_chained_products
from wavesim.workloads.layers import chain_of, transformer_layer

LAYER = transformer_layer("qwen2.5-0.5b", 256)
CHAIN = chain_of(LAYER, "attention")
H200 = devices.load("h200")


def test_a_layers_kernels_are_of_several_kinds_and_those_for_chains_are_told_apart():
    assert is_layer(CHAIN)
    assert not is_layer(chain_of(LAYER, "mlp"))
    assert is_chained(with_chained_products(CHAIN))
    assert not is_chained(with_backends(CHAIN))


def test_attentions_tiles_are_tried_short_rows_first_longest_first_and_head_by_head():
    sets = order_sets(CHAIN)
    words = ("reversed:row", "column", "reversed:column")
    assert [name for name in sets if name.startswith("row")] == [
        "row",
        *(f"row attention={word}" for word in words),
    ]
    grid = CHAIN.stage("attention").grid
    longest_first = sets["row attention=reversed:row"]["attention"].sequence(grid)
    assert longest_first == tuple(reversed(list(grid)))
    assert not any("=" in name for name in order_sets(chain_of(LAYER, "mlp")))


def test_no_kernel_computes_stages_of_several_kinds_so_that_no_plan_is_fused():
    candidates, _ = semaphore_candidates(CHAIN, H200)
    assert candidates
    assert not any(candidate.plan.schedule.is_fused for candidate in candidates)
    assert not any(
        boundary_candidate.plan.schedule.is_split_persistent
        for boundary_candidate in boundary_candidates(CHAIN, H200)
    )


def test_products_for_chains_are_tried_by_dependent_launch_with_semaphores_alone():
    chained = with_chained_products(CHAIN)
    candidates, _ = semaphore_candidates(chained, H200)
    assert {candidate.plan.launch.word for candidate in candidates} == {"pdl"}
    assert not boundary_candidates(chained, H200)


def test_of_a_layers_many_edges_each_is_switched_by_itself():
    bases, varied = policy_choices(LAYER)
    changed = [
        [edge for edge in policies if policies[edge] is not base[edge]]
        for policies in varied
        for base in bases[:2]
    ]
    assert {edges[0] for edges in changed if len(edges) == 1} == set(edges_of(LAYER))
    assert len(varied) == sum(len(edges) == 1 for edges in changed)


def test_a_layer_whose_stages_name_no_kernels_is_tried_with_products_for_chains_too():
    variants = chained_variants({"": CHAIN, "128x128": CHAIN, "named": with_backends(CHAIN)})
    assert list(variants) == ["chained", "128x128 chained"]
    assert {stage.backend for stage in variants["chained"].stages} == {"hopper-chained", "hopper-attention"}
    assert not chained_variants({"": chain_of(LAYER, "mlp")})
