"""Situations from TOML and JSON: what is read is what is written, and what is wrong is named."""

import json
from pathlib import Path

import pytest

from wavesim.errors import DescriptionError, RecordingError
from wavesim.safety.hang.situation_file import load_situation, situation_json, situation_of

CASES = sorted((Path(__file__).parents[4] / "wavesim" / "safety" / "hang" / "cases").glob("*.toml"))
KERNEL = {"name": "a", "grid": [4], "threads": 128}


def read(**fields):
    return situation_of(Path("file.json"), fields)


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_a_situation_written_as_json_reads_as_itself(path, tmp_path):
    situation = load_situation(path)
    copy = tmp_path / "launches.json"
    copy.write_text(situation_json(situation), encoding="utf-8")
    assert load_situation(copy) == situation


def test_fields_left_out_have_their_defaults():
    situation = read(operations=[KERNEL])
    (part,), (kernel,) = situation.devices, situation.operations
    assert (part.name, part.device.name, part.queues) == ("gpu0", "h200", 8)
    assert (kernel.stream, kernel.is_blocking, kernel.carveout, kernel.cluster) == (
        "legacy",
        True,
        "default",
        1,
    )
    assert situation.has_all_waits
    assert not situation.waits


def test_sms_that_other_work_holds_are_not_counted():
    situation = read(
        devices=[{"name": "g", "device": "b200", "sm_count": 74, "held_sms": 4}], operations=[KERNEL]
    )
    assert situation.devices[0].sm_count == 70


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({}, "'operations' is missing"),
        ({"operations": [KERNEL], "waitss": []}, "The nearest is waits"),
        ({"operations": [KERNEL, KERNEL]}, "operations[1].name"),
        ({"operations": [{"name": "a", "threads": 4}]}, "'operations[0].grid' is missing"),
        ({"operations": [KERNEL | {"after": ["b"]}]}, "operations[0].after"),
        ({"operations": [KERNEL | {"cluster": 3}]}, "no multiple"),
        ({"operations": [KERNEL | {"threads": 4096}]}, "threads is 4096"),
        ({"operations": [KERNEL | {"device": "gpu7"}]}, "operations[0].device"),
        ({"operations": [{"name": "c", "kind": "copy", "grid": [3]}]}, "has no blocks"),
        ({"operations": [KERNEL], "waits": [{"waiter": "b", "producer": "a"}]}, "waits[0].waiter"),
        ({"operations": [KERNEL], "waits": [{"waiter": "a"}]}, "a wait is for one thing"),
        ({"operations": [KERNEL], "waits": [{"waiter": "a", "producer": "a"}]}, "barrier of the grid"),
        ({"operations": [KERNEL], "waits": [{"waiter": "a", "semaphore": "s"}]}, "waits[0].semaphore"),
        ({"operations": [KERNEL], "waits": [{"waiter": "a", "producer": "a", "blocks": 9}]}, "blocks' is 9"),
        ({"operations": [KERNEL], "waits": [{"waiter": "a", "producer": "a", "blocks": "row"}]}, "rows"),
        ({"operations": [KERNEL], "devices": [{"name": "g", "device": "zx80"}]}, "unknown device"),
        ({"operations": [KERNEL], "devices": [{"name": "g", "held_sms": 132}]}, "held_sms' is 132"),
    ],
)
def test_what_is_wrong_is_named_with_its_field(fields, named):
    with pytest.raises((RecordingError, DescriptionError)) as raised:
        read(**fields)
    assert named in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_list_is_no_situation():
    with pytest.raises(RecordingError, match="expected a table"):
        situation_of(Path("file.json"), json.loads("[1]"))
