"""Forty small situations, each judged as it was written down; what debuggers and recorders leave."""

import json
import pickle
import tomllib
from pathlib import Path

import pytest

from wavesim.cli.command_line import main
from wavesim.profile.situations import verdict_on
from wavesim.safety.hang.answer import HangAnswer
from wavesim.safety.hang.situation_file import load_situation
from wavesim.safety.hang.verdict import judge

SITUATIONS = tomllib.loads((Path(__file__).parents[3] / "data/hang/situations.toml").read_text())["situation"]
WORDS = {None: "unknown", False: "cannot", True: "can"}


@pytest.mark.parametrize("described", SITUATIONS, ids=lambda described: described["name"])
def test_a_situation_is_judged_as_written_down(described, tmp_path):
    path = tmp_path / "situation.json"
    path.write_text(json.dumps({key: value for key, value in described.items() if key != "expect"}))
    verdict = judge(load_situation(path))
    assert ("hangs" if verdict.is_certain else WORDS[verdict.can_hang]) == described["expect"]
    assert bool(verdict.remedies) == bool(verdict.can_hang)
    assert len(HangAnswer(verdict).lines[0]) <= 100


def test_there_are_forty():
    assert len(SITUATIONS) == 40


TEXT = """\
  Kernel Parent Dev Grid Status                         SMs Mask GridDim  BlockDim Invocation
*      0      -   0    1 Active 0x{mask} (384,1,1) (256,1,1) consume(float *, unsigned int *)
       1      -   0    2 Sent   0x0 (192,1,1) (256,1,1) produce(float *, unsigned int *)
(cuda-gdb) info cuda blocks
  BlockIdx To BlockIdx Count   State
Kernel 0
*  (0,0,0)    (131,0,0)   132 running
(cuda-gdb) info cuda warps
  Wp Active Lanes Mask Divergent Lanes Mask Active Physical PC Kernel BlockIdx First Active ThreadIdx
Device 0 SM 0
*  0        0xffffffff           0x00000000 0x00000000000003b0      0  (0,0,0) (0,0,0)
   1        0x00000001           0x00000000 0x00000000000001f0      0  (0,0,0) (32,0,0)
"""


def test_what_a_debugger_prints_says_who_is_there_and_who_is_not(tmp_path):
    path = tmp_path / "hang.txt"
    path.write_text(TEXT.format(mask="f" * 33))
    answer = HangAnswer(verdict_on(path))
    assert answer.verdict.can_hang is None
    notes = "\n".join(answer.notes)
    assert "consume: 132 of 384 blocks are there, on 132 SMs; 2 warps at 2 addresses" in "\n".join(
        answer.lines
    )
    assert "produce has no block while consume hold SMs" in "\n".join(answer.lines)
    assert not notes or "priority" not in notes
    waits = tmp_path / "waits.toml"
    waits.write_text('all_waits = true\n[[waits]]\nwaiter = "consume"\nproducer = "produce"\n')
    assert verdict_on(path, waits=waits).can_hang is True


def test_a_process_that_nobody_prepared_is_read_from_what_a_debugger_printed_on_an_h200(tmp_path):
    path = Path(__file__).parents[3] / "data" / "hang" / "cuda-gdb-h200.txt"
    lines = "\n".join(HangAnswer(verdict_on(path)).lines)
    assert "consume: 132 of 132 blocks are there, on 132 SMs; 4 warps at 2 addresses" in lines
    assert "--waits says who waits for whom" in lines


def record(*entries: tuple[int, str, str]) -> dict:
    kept = [
        {
            "profiling_name": f"nccl:{name}",
            "collective_seq_id": number,
            "state": state,
            "process_group": ("0", "tp"),
        }
        for number, name, state in entries
    ]
    return {"version": "2.9", "entries": kept}


ALL = (16, "all_reduce", "completed"), (17, "all_reduce", "started")
RECORDS = {
    "a rank launched another collective": (
        [ALL, (ALL[0], (17, "all_gather", "scheduled"))],
        "rank 1 to launch all_reduce 17 of 0 tp: it launched all_gather 17",
    ),
    "a rank never came": ([ALL, ALL[:1]], "its last is all_reduce 16 of 0 tp, which is over"),
    "all are there": ([ALL, ALL], ""),
    "all is over": ([ALL[:1], ALL[:1]], ""),
}


@pytest.mark.parametrize("form", ["json", "pickle"])
@pytest.mark.parametrize(("ranks", "expected"), RECORDS.values(), ids=list(RECORDS))
def test_a_flight_recorder_names_the_rank_that_does_not_take_part(ranks, expected, form, tmp_path):
    for rank, entries in enumerate(ranks):
        file = tmp_path / f"nccl_trace_rank_{rank}"
        document = record(*entries)
        file.write_bytes(pickle.dumps(document) if form == "pickle" else json.dumps(document).encode())
    for path in (tmp_path, tmp_path / "nccl_trace_rank_0"):
        answer = HangAnswer(verdict_on(path))
        assert answer.verdict.is_certain == bool(expected)
        assert expected in answer.why


def test_a_pickle_that_asks_for_code_is_refused_and_not_run(tmp_path, capsys):
    class Hostile:
        def __reduce__(self):
            return (Path.touch, (tmp_path / "touched",))

    path = tmp_path / "trace_0"
    path.write_bytes(pickle.dumps({"entries": [Hostile()]}))
    assert main(["why-hang", str(path)]) == 2
    assert "asks for code" in capsys.readouterr().err
    assert not (tmp_path / "touched").exists()
