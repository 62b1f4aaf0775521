"""What is made of a blind run across two GPUs: errors, where overlap pays, what is hidden, what is chosen."""

import json
from dataclasses import replace
from itertools import pairwise

import pytest

from wavesim.evaluation import peer_registered
from wavesim.evaluation.peer_blind import PeerShape, RegisteredTime, is_measured, register, registered, shapes
from wavesim.evaluation.peer_registered import (
    FITTED,
    SECOND,
    Crossing,
    PeerRun,
    blind_text,
    chosen,
    crossings,
    in_steps,
)

ROWS = (32, 44, 60, 84)


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Four steps of one (k, n) and a large shape: predicted to pay from 44 rows on, measured from 60."""
    told, seen = [], []
    for m in ROWS:
        told += [RegisteredTime(m, 64, 64, "sequence", 20_000, False)]
        told += [RegisteredTime(m, 64, 64, "stores", 24_000 if m < 44 else 16_000, True)]
        seen += [(m, "sequence", 20_000), (m, "stores", 24_000 if m < 60 else 16_000)]
    told += [RegisteredTime(1024, 64, 64, "sequence", 100_000, False)]
    told += [RegisteredTime(1024, 64, 64, "exchange", 60_000, True)]
    seen += [(1024, "sequence", 110_000), (1024, "exchange", 75_000), (1024, "gemm", 60_000)]
    seen += [(1024, "all-reduce", 50_000)]
    register(tmp_path, told, {})
    rows = [{"m": m, "k": 64, "n": 64, "way": way, "ns": ns} for m, way, ns in seen]
    (tmp_path / "measured.json").write_text(json.dumps(rows))
    listed = tuple(PeerShape(m, 64, 64) for m in (*ROWS, 1024))
    monkeypatch.setattr(peer_registered, "shapes", lambda _: listed)
    return PeerRun("made up", tmp_path, tmp_path)


def test_a_run_is_scored_by_way_and_by_where_overlap_pays(run):
    assert crossings(run) == {(64, 64): (Crossing(44), Crossing(60))}
    text = blind_text(run)
    assert "| sequence | 5 | 0.0 |" in text
    assert "44 / 60 (K 64, N 64). Within a factor of 1.41: 1 of 1" in text
    assert "ours hide 70 % from 1,024 rows on" in text


@pytest.mark.parametrize(
    ("pays_at", "words"), [(ROWS, "32 or fewer"), (ROWS[:1], "118 or more"), ((32, 60, 84), "60")]
)
def test_where_overlap_pays_at_an_end_of_the_rows_tried_that_is_said(run, pays_at, words):
    path = run.measured_in / "measured.json"
    rows = json.loads(path.read_text())
    for row in rows:
        if row["way"] == "stores":
            row["ns"] = 16_000 if row["m"] in pays_at else 24_000
    path.write_text(json.dumps(rows))
    assert crossings(run)[64, 64][1].words == words
    is_near = words != "118 or more"
    assert f"Within a factor of 1.41: {int(is_near)} of 1" in blind_text(run)
    assert ("at an end of the rows tried" in blind_text(run)) == (words == "32 or fewer")


def test_rows_beyond_a_step_are_no_part_of_a_crossing():
    assert in_steps([160, 32, 44, 1024]) == [32, 44]
    assert in_steps(ROWS) == list(ROWS)


def test_shapes_that_were_not_measured_are_left_out_and_counted(run):
    path = run.measured_in / "measured.json"
    rows = [row for row in json.loads(path.read_text()) if row["m"] in ROWS[:3] or row["way"] == "sequence"]
    path.write_text(json.dumps(rows))
    text = blind_text(run)
    assert crossings(run) == {}
    assert "from which on ours are faster than one after the other: not measured yet." in text
    assert set(chosen(run, 1.1)) == {(m, 64, 64) for m in ROWS[:3]}
    path.write_text(json.dumps(rows[:2]))
    assert "4 of 5 shapes are not measured yet." in blind_text(run)


def test_ours_are_chosen_where_the_predicted_gain_is_large_enough(run):
    found = chosen(run, 1.1)
    assert found[32, 64, 64] == ("sequence", 1.0)
    assert found[44, 64, 64] == ("stores", pytest.approx(20 / 24))
    assert "44 x 64 x 64 (stores, 0.83)" in blind_text(run)
    assert chosen(run, 1.3)[44, 64, 64] == ("sequence", 1.0)


def test_what_is_not_measured_is_said_to_be(run, tmp_path):
    text = blind_text(replace(run, measured_in=tmp_path / "nowhere"))
    assert text == "Registered: 10 times of 5 shapes; not measured yet."


@pytest.mark.parametrize("one", [FITTED, SECOND])
def test_every_shape_of_a_list_is_registered_in_ways_that_are_measured(one):
    told = registered(one.folder)
    assert {(row.m, row.k, row.n) for row in told} == {(row.m, row.k, row.n) for row in shapes(one.name)}
    assert all(is_measured(row.m, row.way) for row in told)


def test_the_second_list_is_fresh_and_has_steps_where_overlap_may_begin_to_pay():
    first, second = ({(one.m, one.k, one.n) for one in shapes(name)} for name in ("first", "second"))
    assert not first & second
    assert all(1408 <= k <= 14336 and 4096 <= n <= 12288 and 16 <= m <= 8192 for m, k, n in second)
    families = {(k, n): sorted(m for m, *other in second if other == [k, n]) for _, k, n in second}
    stepped = [[m for m in rows if m <= 160] for rows in families.values() if len(rows) >= 4]
    assert len(stepped) >= 6
    assert all(after / before <= 1.41 for rows in stepped for before, after in pairwise(rows))
