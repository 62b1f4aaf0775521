"""From a profile to an answer: launch configurations of Nsight Systems and PyTorch, waits from a file."""

import json

import pytest
from kineto_traces import H100, kernel, write_trace
from nsight_exports import export

from wavesim.cli.command_line import main
from wavesim.profile.situations import verdict_on
from wavesim.safety.hang.answer import HangAnswer

# As in wavesim/safety/hang/cases/mpk-775.toml.
WAITS = """
[[waits]]
waiter = "workers"
producer = "workers"
until = "start"
[[waits]]
waiter = "workers"
producer = "schedulers"
until = "start"
[[waits]]
waiter = "schedulers"
producer = "workers"
"""
B200 = H100 | {"name": "NVIDIA B200", "computeMajor": 10, "numSms": 148}


def nsight(folder):
    rows = [
        (1_000, 901_000, 0, 13, 1, 9, 1, 128, 1, 1, 256, 1, 1, 32, 0, 218_112, None),
        (1_100, 900_000, 0, 14, 2, 9, 2, 80, 1, 1, 32, 1, 1, 32, 0, 0, None),
    ]
    return export(
        folder, rows=rows, gpu=("NVIDIA B200", 148, 10, 0), names=[(1, "workers"), (2, "schedulers")]
    )


def kineto(folder):
    asked = {"registers_per_thread": 32, "grid": [128, 1, 1], "block": [256, 1, 1], "shared_memory": 218_112}
    workers = kernel("workers", 1, 900, stream=13, **asked)
    few = asked | {"grid": [80, 1, 1], "block": [32, 1, 1], "shared_memory": 0}
    schedulers = kernel("schedulers", 1.1, 898, stream=14, **few)
    return write_trace(folder, [workers, schedulers], devices=(B200,))


@pytest.fixture(params=[nsight, kineto], ids=["nsight", "kineto"])
def profile(request, tmp_path):
    return request.param(tmp_path)


@pytest.fixture
def waits(tmp_path):
    path = tmp_path / "waits.toml"
    path.write_text(WAITS)
    return path


def test_mpk_775_is_explained_from_a_profile(profile, waits):
    found = HangAnswer(verdict_on(profile, waits=waits)).as_json()
    assert found["can_deadlock"] is True
    assert found["starved"] == [{"operation": "workers", "device": "gpu0", "blocks": 68, "of": 128}]
    assert {one["operation"]: one["sms"] for one in found["holders"]} == {"workers": 68, "schedulers": 80}
    assert any(
        "an SM with 1 block of schedulers has no room for workers" in one for one in found["residency"]
    )


def test_a_profile_alone_says_what_it_does_not_know(profile):
    found = HangAnswer(verdict_on(profile))
    assert found.as_json()["can_deadlock"] is None
    assert any("carve-outs" in note and "clusters" in note for note in found.as_json()["notes"])


def test_what_was_read_is_saved_as_a_file_to_edit(profile, waits, tmp_path, capsys):
    saved = tmp_path / "launches.json"
    assert main(["why-hang", str(profile), "--waits", str(waits), "--out", str(saved)]) == 1
    document = json.loads(saved.read_text())
    assert HangAnswer(verdict_on(saved)).as_json()["can_deadlock"] is True
    for one in document["operations"]:
        one["carveout"] = "full"
    saved.write_text(json.dumps(document))
    capsys.readouterr()
    assert main(["why-hang", str(saved), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["can_deadlock"] is False
