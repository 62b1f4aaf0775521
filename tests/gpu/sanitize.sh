#!/bin/bash
# memcheck and racecheck over every kernel at small sizes: `make gpu-sanitize`. Needs compute-sanitizer and a GPU.
# `tests/gpu/sanitize.sh rows layer` runs these alone. All are compiled, on all cores, and run without a tool first, so
# that nothing is left to compile under one.
# Calls that the driver refuses on purpose (CuPy asks what there is) are not errors of ours. The tool runs one
# kernel at a time, so these tests say nothing about semaphores between kernels; the mutants' tests do.
# Racecheck does not follow __syncwarp() and then one lane's mbarrier arrival, by which all lanes give a slot back
# (for_each_tile): where a block of a persistent kernel happens to get more tiles than it has slots, it reports reads of
# a work tile against the next one's publish. With an arrival per lane it reports nothing, seen on an H200.
# Racecheck sees shared memory alone; what TMA and wgmma read and write there by themselves it does not follow.
# On an H200 (2026-11-23) the 15 from attention to layer-step-appends, without those that are not of layers, 8 at once:
# memcheck 0 errors in each, in 8 s at most; racecheck 0 hazards in each, in 16 to 113 s.
# decode-step on an H200 (2026-11-28): memcheck 0 errors. Racecheck reports 7 hazards between lanes' writes and reads on either
# side of __syncwarp() and one lane's arrival; with an arrival per lane two are left: lanes past the end of a row that write the
# value that another writes, and 31 reads of one store, not tracked down. So racecheck is not clean here.
cd "$(dirname "$0")/../.." || exit 1
export PYTHONPATH=.:gpu
attention=tests/gpu/test_gpu_attention_sm90.py hopper=tests/gpu/test_gpu_gemm_sm90.py both=tests/gpu/test_gpu_both_stages.py
prefill=tests/gpu/test_gpu_attention_portable.py ladder=tests/gpu/test_gpu_ladder.py pixels=tests/gpu/test_gpu_convolutions.py
rows=tests/gpu/test_gpu_rows.py heads=tests/gpu/test_gpu_attention_chain.py layers=tests/gpu/test_gpu_layers.py
edges=$hopper::test_every_shape_is_right_under_stream_sync_at_the_edges
declare -A tests=(
  [portable]="tests/gpu/test_gpu_results.py::test_split_k_gives_the_same_bits_every_time"
  [wide]="$edges[3-(128, 256, 64)-persistent one-stream-fp16]"
  [three-warpgroups]="$edges[3-(192, 192, 64)-tile one-stream-bf16]"
  [cluster]="$edges[2-(64, 192, 64)-persistent pdl-fp16]"
  [part-of-a-panel]="$edges[3-(128, 240, 64)-persistent one-stream-fp16]"
  [few-rows]="$edges[0.2-(64, 128, 64)-persistent one-stream-fp16]"
  [split-k]="$hopper::test_split_k_slices_wait_and_add_up[(192, 192, 64)-persistent streams-Grouped(rows=2)-2]"
  [stream-k]="$hopper::test_stream_k_adds_up_the_tiles_that_it_cut[stream-k one-stream-(300, 1280, 700)-(128, 192, 64)]"
  [both-stages]="$both::test_every_shape_is_right_at_the_edges[(128, 256, 64)-379-fp16-row]"
  [swiglu]="$both::test_swiglu_leaves_half_the_columns_to_the_second_stage[(128, 176, 64)-row]"
  [attention]="$attention::test_attention_alone_is_right_in_every_form"
  [attention-layer]="$attention::test_a_layer_is_right_under_every_plan_also_when_tiles_come_late_one_by_one[128-tile semaphores]"
  [attention-portable]="$prefill::test_prefill_alone_is_right_in_every_form"
  [decode]="$prefill::test_decode_alone_is_right_in_every_form_and_stores_the_new_row"
  [decode-layer]="$prefill::test_decode_between_products_is_right_under_every_plan_also_when_tiles_come_late[128-plan2]"
  [copies]="tests/gpu/test_gpu_copies.py::test_every_way_to_launch_copies_is_right_again_and_again[1024]"
  [pixels]="$pixels::test_every_class_of_shape_is_convolved_right[hopper-3x3, ragged channels, filters and tiles-fp16]"
  [pixels-portable]="$pixels::test_every_class_of_shape_is_convolved_right[portable-3x3, images that cross a tile-bf16]"
  [pixels-packed]="$pixels::test_packed_rows_of_taps_are_convolved_right[hopper-7x7, stride 2, packed-fp16]"
  [pixels-split]="$pixels::test_splits_of_the_taps_add_up[hopper-3-2]"
  [pixels-pair]="$pixels::test_chains_wait_for_their_halos_under_every_plan[hopper-2--4]"
  [pixels-pair-portable]="$pixels::test_chains_wait_for_their_halos_under_every_plan[portable-2--1]"
  [rows]="$rows::test_rows_alone_are_right_in_every_form"
  [norm-chain]="$rows::test_a_chain_is_right_under_every_plan_also_when_tiles_come_late_one_by_one[8-fp16-persistent, tile semaphores]"
  [softmax-chain]="$rows::test_a_softmax_and_its_copies_are_right_under_every_plan[row semaphores]"
  [head-products]="$heads::test_a_product_alone_is_right_in_every_form"
  [paper-chain]="$heads::test_the_chain_is_right_by_dependent_launch_beside_hopper_products[a short prompt-tile+pdl+row]"
  [paper-chain-step]="$heads::test_the_chain_is_right_by_dependent_launch_beside_hopper_products[generation-tile+pdl+tile]"
  [layer]="$layers::test_layers_with_rope_and_cache_are_right[prompt-pdl+tile]"
  [layer-sequences]="$layers::test_layers_with_rope_and_cache_are_right[two prompts-stream]"
  [layer-step]="$layers::test_layers_with_rope_and_cache_are_right[decode-pdl+tile]"
  [layer-step-appends]="$layers::test_layers_with_rope_and_cache_are_right[decode that appends-stream]"
  [own-stage]="$layers::test_a_user_s_own_kernel_between_two_products_is_right_under_every_plan[pdl+tile]"
  [decode-step]="tests/gpu/test_gpu_decode.py::test_a_small_step_is_right_with_time_enough_for_a_sanitizer"
  [sums]="$ladder::test_every_step_is_right_at_ragged_sizes[reduction]"
  [convolutions]="$ladder::test_every_step_is_right_at_ragged_sizes[convolution]"
  [products]="$ladder::test_every_step_is_right_at_ragged_sizes[matmul]"
  [primitives]="tests/gpu/test_gpu_copies.py::test_every_primitive_leaves_its_counters_as_so_many_uses_do"
)
logs=$(mktemp -d)
trap 'trap - TERM; kill 0' INT TERM # whoever stops this stops the tools too, which would share the GPU with what follows
declare -A tools=(
  [nothing]=""
  [memcheck]="compute-sanitizer --tool memcheck --report-api-errors no --error-exitcode 9"
  [racecheck]="compute-sanitizer --tool racecheck --report-api-errors no --error-exitcode 9"
)
python=${PYTHON:-python3}
check() {
  local begin=$SECONDS
  timeout 400 ${tools[$1]} "$python" -u -m pytest -v -p no:cacheprovider --timeout 360 -m gpu "${tests[$2]}" \
    >"$logs/$1.$2" 2>&1
  local code=$?
  echo "$1 $2: exit $code, $((SECONDS - begin)) s, $(grep -hoE '[0-9]+ (errors|hazards displayed)' "$logs/$1.$2" | tail -1)," \
    "$(grep -hoE '[0-9]+ (passed|failed)' "$logs/$1.$2" | head -1)"
  ((code)) && tail -20 "$logs/$1.$2" && touch "$logs/failed"
}
for name in "$@"; do
  [[ -n ${tests[$name]:-} ]] || { echo "no test is called $name; there are: ${!tests[*]}" >&2; exit 2; }
done
(($#)) || set -- "${!tests[@]}"
chosen=()
for name in "$@"; do chosen+=("${tests[$name]}"); done
"$python" -m pytest -q -p no:cacheprovider -m gpu --compile-ahead "${chosen[@]}" | tail -1
for tool in nothing memcheck racecheck; do
  for name in "$@"; do
    while (($(jobs -rp | wc -l) >= 8)); do wait -n; done # more at once wait for each other on the GPU beyond their limits
    check "$tool" "$name" &
  done
  wait
done
[[ ! -e $logs/failed ]]
