"""What a mirror of the semaphores of a hung process says: who is there, who waits, what was not posted."""

import contextlib
import json
import os
import time
from pathlib import Path

import numpy as np
import pytest

from wavesim.errors import DescriptionError, RecordingError
from wavesim.profile.situations import situation_of_profile, verdict_on
from wavesim.safety.hang.answer import HangAnswer
from wavesim.safety.hang.mirror import ERRORS, MAGIC, MOST_COUNTERS, load_mirror, mirror_head
from wavesim.safety.hang.situation_file import with_waits
from wavesim.safety.hang.verdict import judge
from wavesim.view.hang_picture import write_hang_page

PROFILE = Path(__file__).parents[4] / "wavesim" / "recordings" / "profiles" / "h100-qwen1.5-0.5b.json.gz"
BASE = 8_192
KERNEL = {"threads": 256, "registers": 232, "carveout": "full", "blocking": False}
PAIR = {
    "name": "pair",
    "devices": [{"name": "gpu0", "device": "h200"}],
    "operations": [
        {"name": "gemm1", "grid": [24, 8], "stream": "s1", **KERNEL},
        {"name": "gemm2", "grid": [48, 8], "stream": "s2", **KERNEL},
    ],
    "waits": [{"waiter": "gemm2", "producer": "gemm1", "blocks": "row", "rows": 8}],
}


def mirror_bytes(rows, started, gave_up=0, situation=PAIR):
    """Eight row semaphores of gemm1, both kernels' started blocks, and an error buffer."""
    rows_at, started_at, errors_at = BASE, BASE + 32, BASE + 40
    arrays = [
        {"name": "gemm1 rows", "operation": "gemm1", "offset": rows_at, "count": 8, "awaited": 24},
        {"name": "a", "operation": "gemm1", "kind": "started", "offset": started_at, "count": 1},
        {"name": "b", "operation": "gemm2", "kind": "started", "offset": started_at + 4, "count": 1},
    ]
    errors = {
        "offset": errors_at,
        "operations": ["gemm1", "gemm2"],
        "counters": ["start of gemm1", "start of gemm2", "row 0 of gemm1"],
    }
    head = mirror_head({"arrays": arrays, "errors": errors, "situation": situation}, 7, 10**18)
    data = bytearray(errors_at + ERRORS.itemsize)
    data[: len(head)] = head
    data[rows_at:errors_at] = np.array([*rows, *started], "<u4").tobytes()
    buffer = np.zeros(1, ERRORS)
    buffer["waiter_count"] = gave_up
    buffer["waiters"]["stage"], buffer["waiters"]["counter"], buffer["waiters"]["sm"] = 1, 2, 37
    buffer["waiters"]["seen"], buffer["waiters"]["awaited"] = 17, 24
    data[errors_at:] = buffer.tobytes()
    return bytes(data)


def written(folder, *values, **more):
    path = folder / "mirror"
    path.write_bytes(mirror_bytes(*values, **more))
    return path


def test_a_consumer_that_fills_the_gpu_is_named(tmp_path):
    answer = HangAnswer(verdict_on(written(tmp_path, [0] * 8, [0, 132])))
    text = "\n".join(answer.lines)
    assert "  - 0 of 192 blocks of gemm1 find room" in text
    assert "132 of 384 blocks of gemm2 hold 132 of 132 SMs" in text
    assert "gemm2 waits for gemm1; gemm1 has no room beside gemm2" in text
    assert "gemm1: 0 of 192 blocks have started" in text
    assert answer.as_json()["counters"]["short"][0] == {
        "semaphore": "gemm1 rows",
        "index": 0,
        "value": 0,
        "awaited": 24,
    }


def test_a_post_that_is_missing_is_named_with_its_semaphore(tmp_path):
    path = written(tmp_path, [24] * 7 + [23], [192, 132], gave_up=70)
    answer = HangAnswer(verdict_on(path))
    text = "\n".join(answer.lines)
    assert "gemm1 rows: 7 of 8 are ready" in text
    assert "number 7 is at 23 of 24" in text
    assert "gave up: gemm2 block (0, 0, 0) on SM 37" in text
    assert "waits for row 0 of gemm1: seen 17, awaited 24" in text
    assert "and 56 more gave up" in text
    assert "find room" not in text
    assert "all 192 blocks of gemm1 have started, and gemm1 rows lacks 1 post, the first at number 7" in text


def test_where_all_is_posted_nobody_is_seen_to_wait(tmp_path):
    answer = HangAnswer(verdict_on(written(tmp_path, [24] * 8, [192, 300])))
    assert answer.as_json()["can_deadlock"] is False
    assert "nobody is seen to wait" in answer.lines[0]


def test_launches_and_mirror_may_be_two_files(tmp_path):
    launches = tmp_path / "launches.json"
    launches.write_text(json.dumps(PAIR), encoding="utf-8")
    mirror = written(tmp_path, [0] * 8, [0, 132], situation=None)
    assert verdict_on(launches, mirror).can_hang
    with pytest.raises(RecordingError, match="this mirror has no launches"):
        verdict_on(mirror)
    with pytest.raises(DescriptionError, match="is a mirror itself"):
        verdict_on(mirror, mirror)


def test_a_mirror_with_launches_is_enough_without_a_file(tmp_path):
    mirror = written(tmp_path, [0] * 8, [0, 132])
    assert verdict_on(None, mirror).can_hang
    with pytest.raises(DescriptionError, match="FILE is missing"):
        verdict_on(None)
    other = tmp_path / "launches.json"
    other.write_text("{}")
    with pytest.raises(RecordingError, match="mirror"):
        verdict_on(None, other)


def test_a_file_of_no_kind_that_is_read_says_which_kinds_are(tmp_path):
    junk = tmp_path / "junk"
    junk.write_text("name = 'launches'")
    with pytest.raises(RecordingError, match=r"neither JSON, .* TOML must be named so: NAME\.toml"):
        verdict_on(junk)


def test_counters_are_those_of_a_kernels_latest_launch(tmp_path):
    launches = tmp_path / "launches.json"
    operations = [one | {"name": f"{one['name']} #{n}"} for n in (1, 2, 3) for one in PAIR["operations"]]
    waits = [
        wait | {"waiter": f"gemm2 #{n}", "producer": f"gemm1 #{n}"}
        for n in (1, 2, 3)
        for wait in PAIR["waits"]
    ]
    document = PAIR | {"operations": operations, "waits": waits}
    launches.write_text(json.dumps(document), encoding="utf-8")
    answer = HangAnswer(verdict_on(launches, written(tmp_path, [0] * 8, [0, 132])))
    assert {one["operation"]: one["blocks"] for one in answer.as_json()["holders"]} == {"gemm2 #3": 132}
    document["operations"] = [one | {"name": f"other {one['name']}"} for one in PAIR["operations"]]
    document["waits"] = []
    launches.write_text(json.dumps(document), encoding="utf-8")
    lines = HangAnswer(verdict_on(launches, written(tmp_path, [0] * 8, [0, 132]))).lines
    assert any("gemm1 has counters and is not among the launches" in line for line in lines)


def test_the_page_says_that_places_were_worked_out(tmp_path):
    answer = HangAnswer(verdict_on(written(tmp_path, [0] * 8, [0, 132])))
    page = write_hang_page(tmp_path / "hang.html", answer).read_text(encoding="utf-8")
    assert "blocks as counters have them; on which SM a block is was worked out" in page


@pytest.mark.parametrize("length", [0, 7, 20, 40, 400, BASE + 3, BASE + 100])
def test_a_mirror_that_is_cut_off_is_refused_in_one_line(tmp_path, length):
    path = tmp_path / "mirror"
    path.write_bytes(mirror_bytes([0] * 8, [0, 132])[:length])
    with pytest.raises(RecordingError) as raised:
        verdict_on(path)
    assert "\n" not in str(raised.value)


def test_damaged_mirrors_are_read_or_refused_at_once(tmp_path):
    whole, random = mirror_bytes([0] * 8, [0, 132]), np.random.default_rng(3)
    began = time.monotonic()
    for _ in range(150):
        data = bytearray(whole)
        for place in random.integers(0, BASE if random.random() < 0.5 else 700, 3):
            data[place] = random.integers(0, 256)
        path = tmp_path / "mirror"
        path.write_bytes(data)
        with contextlib.suppress(RecordingError, DescriptionError):
            verdict_on(path)
    assert time.monotonic() - began < 60


def test_a_header_that_lies_about_sizes_is_refused(tmp_path):
    path = tmp_path / "mirror"
    for entry in (
        {"name": "x", "operation": "gemm1", "offset": 2**62, "count": 8},
        {"name": "x", "operation": "gemm1", "offset": 0, "count": 2**62},
        {"name": "x", "operation": "gemm1", "offset": 0, "count": 1, "awaited": [1, 2]},
        {"name": 3, "operation": "gemm1", "offset": 0, "count": 1},
    ):
        path.write_bytes(mirror_head({"arrays": [entry]}))
        with pytest.raises((RecordingError, DescriptionError)):
            load_mirror(path)
    path.write_bytes(MAGIC + b"\xff" * 24)
    with pytest.raises(RecordingError, match="cut off"):
        load_mirror(path)


def test_arrays_that_lie_on_each_other_are_not_read_without_end(tmp_path):
    path, count = tmp_path / "mirror", MOST_COUNTERS // 3
    entry = {"name": "x", "operation": "gemm1", "offset": 0, "count": count, "awaited": 3}
    path.write_bytes(mirror_head({"arrays": [entry] * 4}) + bytes(4 * count))
    with pytest.raises((RecordingError, DescriptionError), match=r"arrays\[3\].count"):
        load_mirror(path)


def test_a_profile_alone_is_never_called_safe():
    verdict = verdict_on(PROFILE)
    assert verdict.can_hang is None
    assert len(verdict.facts.operations) > 20
    assert len({one.name for one in verdict.facts.operations}) == len(verdict.facts.operations)


def test_a_profile_with_waits_is_judged(tmp_path):
    profile = situation_of_profile(PROFILE)
    waits = tmp_path / "waits.toml"
    first, second = (json.dumps(one.name) for one in profile.operations[:2])
    waits.write_text(f"[[waits]]\nwaiter = {second}\nproducer = {first}\n", encoding="utf-8")
    assert judge(with_waits(profile, waits)).basis == "cuda"  # one stream
    waits.write_text(f"[[waits]]\nwaiter = {first}\nproducer = {second}\n", encoding="utf-8")
    assert judge(with_waits(profile, waits)).is_certain
    waits.write_text('[[waits]]\nwaiter = "nobody"\nunknown = true\n', encoding="utf-8")
    with pytest.raises(RecordingError, match="nothing of that name"):
        with_waits(profile, waits)


def test_a_mirror_is_read_from_a_file_without_rights_to_write(tmp_path):
    path = written(tmp_path, [0] * 8, [0, 132])
    os.chmod(path, 0o400)  # noqa: PTH101  # as another user's process leaves it
    assert verdict_on(path).can_hang
