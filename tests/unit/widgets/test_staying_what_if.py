"""The what-if on blocks that stay: its controls, what it says, settings that cannot be."""

from wavesim.widgets.staying_what_if import BALANCED, StayingScenario, StayingWhatIf, staying_answer


def test_a_balanced_mapping_of_larger_blocks_makes_a_t4_faster():
    published = staying_answer(StayingScenario())
    better = staying_answer(StayingScenario(recurrent_rows=96, mapping=BALANCED))
    assert better.stays_ns < published.stays_ns
    assert published.stays_ns < published.launched_ns


def test_five_batches_in_flight_share_the_cycles_that_one_has_alone():
    one, five = (staying_answer(StayingScenario(batches=batches)) for batches in (1, 5))
    assert 3 * five.stays_ns < one.stays_ns < 5 * five.stays_ns


def test_a_barrier_that_takes_longer_than_launch_and_weights_loses():
    assert (
        staying_answer(StayingScenario(barrier_ns=3000)).stays_ns
        > staying_answer(StayingScenario()).launched_ns
    )


def test_a_step_in_the_pictures_steady_state_is_five_cycles_shared_by_the_batches():
    answer = staying_answer(StayingScenario(device="h200", sms=132))
    costs = answer.scenario.costs
    assert answer.stays_ns == costs.recurrent_ns + costs.barrier_ns
    assert answer.launched_ns == costs.recurrent_ns + costs.recurrent_weights_ns + costs.launch_ns


def test_controls_change_the_answer_and_only_a_launched_cycle_has_a_kernel_boundary(tmp_path):
    widget = StayingWhatIf()
    before = widget.finding.value
    widget.batches.value = 2
    assert widget.answer.scenario.batches == 2
    assert widget.finding.value != before
    launched, stays = widget.picture.scene["panels"]
    assert len(launched["boundaries"]) == 1
    assert stays["boundaries"] == []
    assert "not measured" in widget.save(tmp_path / "staying.html").read_text("utf-8")
