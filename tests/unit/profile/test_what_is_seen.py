"""What advice sees, and what it says it does not: communication, grouped products, other streams."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from kineto_traces import REAL, kernel, write_trace

from wavesim.cli.command_line import main
from wavesim.errors import DescriptionError
from wavesim.profile.advice import Advice, advise
from wavesim.profile.advice_figures import LETTER_PX, advice_pairs
from wavesim.profile.advice_json import advice_document, pair_forecast
from wavesim.profile.advice_text import findings, headline
from wavesim.profile.kernel_facts import COMMUNICATION, GROUPED
from wavesim.profile.kernel_names import parsed_name
from wavesim.profile.profile_file import load_profile
from wavesim.view.theme import find_theme

GROUPED_GEMM = (
    "void cutlass::device_kernel<cutlass::gemm::kernel::GemmUniversal<cutlass::gemm::GroupProblemShape<"
    "cute::tuple<int, int, int>>, cutlass::gemm::collective::CollectiveMma<int>>>(Params)"
)
FLASH = (
    "void cutlass::device_kernel<flash::enable_sm90<flash::FlashAttnFwdSm90<flash::Mainloop<2>>>>(flash::P)"
)


def advice_on(folder: Path, events: list[object], **more: object) -> Advice:
    return advise(load_profile(write_trace(folder, events, **more)))


@pytest.mark.parametrize(
    "name",
    [
        "void deep_ep::intranode::dispatch<8, 768, 8192>(int4*, float*)",
        "void deep_ep::intranode::combine<__nv_bfloat16, 8, 768>(int4*)",
        "void deep_ep::internode::notify_dispatch<false, 4>(int const*)",
        "void deep_ep::internode_ll::dispatch<false, 3, 7168>(void*)",
        "void deep_ep::intranode::cached_notify_combine<8>(void**)",
        "void moe::ep::dispatch_tokens<4>(int const*)",
        "void ep::combine<4>(int const*)",
        "nvshmemi_transfer_rma_nbi",
        "void all2all_kernel<4>(void*)",
        "void vllm::alltoall::moe_all_to_all<8>(void*)",
        "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)",
    ],
)
def test_what_moves_tokens_between_experts_is_communication(name: str):
    assert parsed_name(name).kind == "communication"


@pytest.mark.parametrize(
    "name", ["void step::elementwise_kernel<4>()", "deep_gemm::fp8_gemm_kernel<4096u>", "sleep_kernel"]
)
def test_other_names_with_the_same_letters_are_not(name: str):
    assert parsed_name(name).kind != "communication"


def test_expert_parallel_dispatch_is_blind_time_and_no_compute(tmp_path: Path):
    events = [
        kernel("void deep_ep::internode_ll::dispatch<false, 3, 7168>(void*)", 0.5, 30, grid=[132, 1, 1]),
        kernel("gemm_128x128_a", 31.5, 70),
    ]
    advice = advice_on(tmp_path, events)
    assert advice.blind_ns == {COMMUNICATION: 30_000}
    assert advice.blind_share == pytest.approx(0.3)


def test_a_grouped_product_of_one_partial_wave_is_unknown_and_one_of_several_is_not(tmp_path: Path):
    partial, several = (
        kernel(GROUPED_GEMM, at, 50, grid=[blocks, 1, 1]) for at, blocks in ((0.5, 100), (60.5, 400))
    )
    advice = advice_on(tmp_path, [partial, several])
    by_blocks = {kernel.shape.blocks: kernel for kernel in advice.kernels}
    assert by_blocks[100].blind == GROUPED
    assert by_blocks[100].waves is None
    assert by_blocks[400].waves is not None
    assert advice.blind_share == pytest.approx(0.5)
    assert "only the data says" in findings(advice)[2]


def test_a_grouped_product_whose_name_tells_its_tile_stays_visible(tmp_path: Path):
    advice = advice_on(tmp_path, [kernel("grouped_gemm_128x128_kernel", 0.5, 50, grid=[100, 1, 1])])
    assert advice.blind_share == 0


def test_slots_that_another_stream_fills_are_not_empty(tmp_path: Path):
    # 198 blocks on 132 slots: the second 50 us leave half of the slots empty.
    block = {"registers_per_thread": 128, "shared_memory": 150_000}
    first = kernel("gemm_a", 0.5, 100, **block)
    alone = advice_on(tmp_path, [first])
    assert alone.tail_loss_ns == 25_000
    # A kernel as large as the device runs on another stream for the last 25 us of them.
    beside = kernel("gemm_b", 75.5, 100, stream=8, grid=[1_320, 1, 1], **block)
    filled = advice_on(tmp_path, [first, beside])
    gemm = next(kernel for kernel in filled.kernels if kernel.shape.name == "gemm_a")
    assert gemm.filled_share == pytest.approx(0.5)
    assert gemm.tail_loss_ns == pytest.approx(12_500)
    # 8 blocks beside 132 SMs fill next to nothing.
    small = advice_on(tmp_path, [first, kernel("nccl_ring", 50.5, 50, stream=8, grid=[8, 1, 1], **block)])
    gemm = next(kernel for kernel in small.kernels if kernel.shape.name == "gemm_a")
    assert gemm.filled_share == pytest.approx(8 / 132)


def test_the_next_kernel_of_the_same_stream_fills_nothing(tmp_path: Path):
    block = {"registers_per_thread": 128, "shared_memory": 150_000}
    events = [kernel("gemm_a", 0.5, 100, **block), kernel("gemm_b", 90.5, 100, **block)]
    assert [kernel.filled_share for kernel in advice_on(tmp_path, events).kernels] == [0.0, 0.0]


def test_where_no_wave_can_be_seen_nothing_is_said_of_pairs(tmp_path: Path):
    hidden = {"grid": None, "registers_per_thread": None, "shared_memory": None}
    events = [kernel("Cijk_gemm_a", 0.5, 100, **hidden), kernel("Cijk_gemm_b", 101.0, 100, **hidden)]
    advice = advice_on(tmp_path, events, devices=())
    first = findings(advice)[0]
    assert "would gain from tile sync cannot be seen" in first
    assert "No pair" not in first
    assert headline(advice).startswith("Nothing can be said of last waves: 100 %")
    alone = advice_on(tmp_path, [kernel("gemm_a", 0.5, 100)])
    assert "no pair that tile sync could help" in findings(alone)[0]


def test_kernels_that_only_run_their_template_argument_are_named_by_it():
    flash = parsed_name(FLASH)
    assert (flash.kind, flash.short) == ("attention", "FlashAttnFwdSm90")
    assert parsed_name(GROUPED_GEMM).short == "GemmUniversal"
    assert parsed_name("void cutlass::device_kernel()").short == "device_kernel"


def pair_of(us: float) -> list[dict[str, Any]]:
    """Two kernels of one wave and a half each, one behind the other."""
    block = {"registers_per_thread": 128, "shared_memory": 150_000}
    return [kernel("gemm_a", 0.5, us, **block), kernel("gemm_b", us + 1.5, us, **block)]


def gaining_pair(folder: Path) -> Advice:
    return advice_on(folder, pair_of(us=100))


def test_a_pair_that_the_simulator_refutes_is_neither_green_nor_a_headline(tmp_path: Path):
    advice = gaining_pair(tmp_path)
    good, muted = find_theme("light").good, find_theme("light").muted

    def colour(advice: Advice) -> str:
        return advice_pairs(advice).data[0].marker.color[0]

    assert "tile sync would save" in findings(advice)[0]
    assert colour(advice) == muted  # an estimate that nobody has simulated
    assert colour(advice.with_simulated({1: 3.0})) == good
    refuted = advice.with_simulated({1: 0.0})
    assert colour(refuted) == muted
    assert refuted.recoverable_ns == 0
    assert "win back" not in headline(refuted)
    assert "would save" not in findings(refuted)[0]
    assert "no plan gains over stream sync in pair 1: do not rewrite it" in findings(refuted)[0]
    assert "Most to win" not in advice_pairs(refuted).layout.title.text
    assert any("simulated" in word for word in pair_forecast(refuted, refuted.pair(1)).defaults)
    with pytest.raises(DescriptionError, match="pair is 9"):
        advice.with_simulated({9: 1.0})


def test_the_command_holds_its_headlines_against_its_own_simulator(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    too_short = write_trace(tmp_path, pair_of(us=4))  # half a wave is less than semaphores cost
    assert main(["advise", str(too_short), "--verdicts", "1", "--seconds", "300", "--verbose"]) == 0
    text = capsys.readouterr().out
    assert "Run: stream " in text.partition("pair 1, ")[2]
    assert "no plan gains over stream sync in pair 1: do not rewrite it" in text


def test_points_are_of_the_pairs_own_time_and_reach_down_until_it_is_marked(tmp_path: Path):
    advice = gaining_pair(tmp_path)
    forecast = pair_forecast(advice, advice.pair(1))
    assert forecast.points == pytest.approx(100 * advice.pair(1).saving.likely_ns / 200_000, abs=0.001)
    assert forecast.low < 0
    assert any("not said" in word for word in forecast.defaults)
    marked = advice.marked({1: True})
    assert not any("not said" in word for word in pair_forecast(marked, marked.pair(1)).defaults)
    document = advice_document(advice)
    assert document["scored"] is False
    assert replace(advice, pairs=()).recoverable_ns == 0


def test_the_names_of_a_pair_have_room_beside_its_bar():
    advice = advise(load_profile(REAL["a100"]))
    figure = advice_pairs(advice)
    labels = [re.sub("<[^>]*>", "", text) for text in figure.layout.yaxis.ticktext]
    assert len(labels) > 4
    assert max(map(len, labels)) * LETTER_PX <= figure.layout.margin.l
    assert all("→" in label for label in labels)
