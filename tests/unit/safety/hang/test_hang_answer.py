"""What `why-hang` says in special situations, with hostile names and of many operations."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from wavesim.safety.hang.answer import HangAnswer
from wavesim.safety.hang.situation_file import situation_of
from wavesim.safety.hang.verdict import judge
from wavesim.view.hang_picture import write_hang_page

EVIL = "<img src=x onerror=alert(1)>\x1b[31m$x$%{y}"


def answer(**fields):
    return HangAnswer(judge(situation_of(Path("file.json"), fields)))


def kernel(name, **more):
    return {"name": name, "grid": [200], "threads": 1024, "stream": name, "blocking": False} | more


WAIT = {"waiter": "b", "producer": "a"}


def test_without_waits_nothing_hangs():
    found = answer(operations=[kernel("a"), kernel("b")])
    assert found.as_json()["can_deadlock"] is False
    assert "no block waits" in found.lines[0]


def test_on_one_stream_it_rests_on_what_cuda_promises():
    found = answer(operations=[kernel("a", stream="s"), kernel("b", stream="s")], waits=[WAIT])
    assert (found.verdict.can_hang, found.verdict.basis) == (False, "cuda")


def test_where_waiting_blocks_leave_room_it_rests_on_an_idle_gpu():
    found = answer(operations=[kernel("a"), kernel("b", grid=[100])], waits=[WAIT])
    assert (found.verdict.can_hang, found.verdict.basis) == (False, "idle")
    assert (
        found.verdict.needed_sms == 51
    )  # two of the 100 blocks to an SM, and room for one of the producer's
    assert "leaves 51 SMs" in found.lines[1]


def test_what_is_not_known_is_not_called_safe():
    found = answer(operations=[kernel("a")], all_waits=False)
    assert found.as_json()["can_deadlock"] is None
    unknown = answer(operations=[kernel("a"), kernel("b")], waits=[{"waiter": "b", "unknown": True}])
    assert unknown.as_json()["can_deadlock"] is None
    assert "b waits for something that is not described" in unknown.lines[0]


def test_what_hangs_without_the_unknown_waits_hangs():
    waits = [{"waiter": "a", "unknown": True}, {"waiter": "b", "producer": "b", "until": "start"}]
    found = answer(operations=[kernel("a"), kernel("b", grid=[500])], waits=waits)
    assert found.as_json()["can_deadlock"] is True


def test_processes_share_sms_only_under_mps():
    def of(mps):
        return answer(
            devices=[{"name": "gpu0", "device": "h200", "mps": mps}],
            operations=[kernel("a", process="one"), kernel("b", process="two", grid=[600])],
            waits=[WAIT],
        )

    assert of(mps=True).verdict.can_hang
    assert not of(mps=False).verdict.can_hang
    assert any("share it in time" in note for note in of(mps=False).notes)


def test_sms_that_other_work_holds_are_missing():
    def of(held):
        device = {"name": "gpu0", "device": "h200", "held_sms": held}
        wait = {"waiter": "a", "producer": "a", "until": "start"}
        return answer(devices=[device], operations=[kernel("a", grid=[264])], waits=[wait])

    assert of(0).verdict.can_hang is False
    assert of(1).verdict.is_certain


def test_a_cooperative_launch_that_fits_rests_on_what_cuda_promises():
    wait = {"waiter": "a", "producer": "a", "until": "start"}
    found = answer(operations=[kernel("a", cooperative=True)], waits=[wait])
    assert (found.verdict.can_hang, found.verdict.basis) == (False, "cuda")


def test_hostile_names_stay_names(tmp_path):
    found = answer(
        name=EVIL,
        operations=[kernel(EVIL), kernel("b", grid=[600])],
        waits=[{"waiter": "b", "producer": EVIL}],
    )
    assert found.verdict.can_hang
    page = write_hang_page(tmp_path / "hang.html", found).read_text(encoding="utf-8")
    assert "<img src=x" not in page
    assert json.loads(json.dumps(found.as_json()))["starved"][0]["operation"] == EVIL


@pytest.mark.parametrize("count", [12, 400])
def test_many_operations_are_judged_too(count):
    operations = [kernel(f"k{i}", stream="s") for i in range(count)]
    waits = [{"waiter": f"k{i}", "producer": f"k{i - 1}"} for i in range(1, count)]
    assert answer(operations=operations, waits=waits).verdict.basis == "cuda"
    apart = [one | {"stream": one["name"]} for one in operations]
    found = answer(devices=[{"name": "gpu0", "queues": 1024}], operations=apart, waits=waits)
    assert found.verdict.can_hang
    assert len(found.lines[0]) < 2_000


def test_a_billion_blocks_cost_no_more_than_a_few():
    operations = [kernel("a", grid=[10**9]), kernel("b", grid=[10**9])]
    found = answer(operations=operations, waits=[WAIT])
    assert found.as_json()["holders"][0]["blocks"] == 264


def test_of_many_operations_nothing_is_said_of_the_order_of_issue():
    few, many = (
        answer(operations=[kernel(name, grid=[600]) for name in names], waits=[WAIT])
        for names in ("ab", "abcdefgh")
    )
    assert (few.verdict.can_hang, few.verdict.hangs_as_seen) == (True, False)
    assert (many.verdict.can_hang, many.verdict.hangs_as_seen) == (True, None)
    assert any("oldest launch first" in line for line in few.lines)
    assert not any("oldest launch first" in line for line in many.lines)


def test_the_command_writes_text_json_and_a_page(tmp_path):
    case = Path(__file__).parents[4] / "wavesim" / "safety" / "hang" / "cases" / "mpk-775.toml"
    page = tmp_path / "hang.html"
    command = [sys.executable, "-m", "wavesim", "why-hang", str(case), "--json", "--html", str(page)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1  # it can hang
    assert json.loads(done.stdout)["can_deadlock"] is True
    assert "68 of 128 blocks of workers" in page.read_text(encoding="utf-8")
