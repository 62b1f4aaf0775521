"""What a recorder writes is at any time a situation that `why-hang` reads. The driver is made up."""

import json
import warnings
from types import SimpleNamespace

import pytest
from small_pipelines import fork, pair

from wavesim.plan.plan import Plan, SemaphoreSync
from wavesim.plan.policy import RowSync
from wavesim.plan.schedule import Persistent
from wavesim.plan.semaphores import semaphore_arrays
from wavesim.safety.hang.situation import BlockWait
from wavesim.safety.hang.situation_file import load_situation
from wavesim_gpu.driver.kernel_launch import DeviceLaunch, KernelLaunch
from wavesim_gpu.hang import launch_recorder
from wavesim_gpu.hang.launch_recorder import LaunchRecorder, active_recorder, record_launches
from wavesim_gpu.hang.planned_run import PlannedRun


class MadeUpFacts:
    """A driver that knows two streams; on the second only 64 SMs are seen."""

    def kernel(self, function):
        return {"registers": 168, "static_shared_bytes": 48, "carveout": "full"}

    def stream(self, address):
        name = "gpu0 64 SMs" if address == 2 else "gpu0"
        return {"stream": f"{address:#x}", "blocking": False, "priority": -address, "device": name}

    def part(self, address):
        count, by = (64, "a green context") if address == 2 else (132, "")
        fields = {"name": self.stream(address)["device"], "device": "NVIDIA H200"}
        return fields | {"sm_count": count, "limited_by": by, "mps": False, "queues": 8}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "launches.json"


@pytest.fixture
def recorder(path):
    made = LaunchRecorder(path, MadeUpFacts())
    yield made
    made.close()


def program(pipeline, plan, blocks=None):
    """Launches of a pipeline under a plan, on streams 1, 2, ... with a wait-kernel before consumers."""
    function = SimpleNamespace(registers=96, static_shared_bytes=16)
    launches = []
    for index, stage in enumerate(pipeline.stages):
        if (dependency := pipeline.dependency_of(stage.name)) is not None:
            one = KernelLaunch("wait_for_start", 32, 0, 1)
            launches.append(
                DeviceLaunch(function, one, (), index, (stage.name,), tuple(dependency.producers))
            )
        shape = KernelLaunch("gemm", 128, 4096, blocks or stage.grid.size)
        launches.append(DeviceLaunch(function, shape, (), index, (stage.name,)))
    sync = SimpleNamespace(pipeline=pipeline, plan=plan, arrays=semaphore_arrays(pipeline, plan))
    return PlannedRun(launches, range(1, 1 + len(pipeline.stages)), sync)


def test_a_launch_is_in_the_file_before_it_is_made(path, recorder):
    name = recorder.launched(
        "mine", grid=(4, 2), threads=96, function=0xF, dynamic_shared_bytes=512, stream=2
    )
    found = load_situation(path)
    assert name == "mine"
    one = found.operation(name)
    assert (one.blocks, one.block.threads, one.block.registers) == (8, 96, 168)
    assert (one.block.static_shared_bytes, one.block.dynamic_shared_bytes) == (48, 512)
    assert (one.stream, one.is_blocking, one.priority, one.carveout) == ("0x2", False, -2, "full")
    part = found.device(one.device)
    assert (part.sm_count, part.limited_by, part.device.name) == (64, "a green context", "h200")
    assert not found.has_all_waits


def test_streams_are_cupys_pytorchs_or_addresses(path, recorder):
    for stream in (SimpleNamespace(ptr=7), SimpleNamespace(cuda_stream=7), 7):
        recorder.launched("mine", grid=(1,), threads=32, registers=24, stream=stream)
    assert [one.stream for one in load_situation(path).operations] == ["0x7"] * 3
    assert [one.name for one in load_situation(path).operations] == ["mine", "mine #2", "mine #3"]


def test_waits_of_a_users_kernels_are_those_of_their_latest_launches(path, recorder):
    for _ in range(2):
        recorder.launched("first", grid=(8,), threads=32, registers=24, stream=1)
        recorder.launched("second", grid=(8,), threads=32, registers=24, stream=2)
    recorder.waits("second", "first", blocks="row", rows=4)
    assert load_situation(path).waits == (BlockWait("second #2", "first #2", "row", "end", 4),)


def test_a_run_of_a_plan_is_operations_and_waits_and_the_next_comes_after_it(path, recorder):
    run = program(pair(), SemaphoreSync(RowSync()))
    ends = recorder.note_planned(run, ())
    assert ends == ("gemm1", "gemm2")
    recorder.note_planned(run, ends)
    found = load_situation(path)
    assert [one.name for one in found.operations[:3]] == ["gemm1", "wait-kernel of gemm2", "gemm2"]
    assert [one.stream for one in found.operations[:3]] == ["0x1", "0x2", "0x2"]
    assert [tuple(one.after) for one in found.operations] == [(), (), (), ends, ends, ()]
    rows = pair().stages[0].grid.y
    assert found.waits[:2] == (
        BlockWait("wait-kernel of gemm2", "gemm1", 1, "start"),
        BlockWait("gemm2", "gemm1", "row", "end", rows),
    )
    assert [wait.producer for wait in found.waits[2:]] == ["gemm1 #2", "gemm1 #2"]


def test_two_consumers_have_a_wait_kernel_each(path, recorder):
    recorder.note_planned(program(fork(), SemaphoreSync(RowSync())), ())
    names = [one.name for one in load_situation(path).operations]
    assert len(set(names)) == 5


def test_blocks_of_persistent_kernels_wait_for_all_blocks(path, recorder):
    plan = Plan(Persistent(), sync=SemaphoreSync(RowSync()).sync, launch=SemaphoreSync(RowSync()).launch)
    recorder.note_planned(program(pair(), plan, blocks=4), ())
    assert [wait.blocks for wait in load_situation(path).waits] == [1, "all"]


def test_the_oldest_runs_are_left_out_and_what_is_said_of_them(path):
    recorder = LaunchRecorder(path, MadeUpFacts(), kept=3)
    run, ends = program(pair(), SemaphoreSync(RowSync())), ()
    for _ in range(7):
        ends = recorder.note_planned(run, ends)
    recorder.close()
    found = load_situation(path)
    assert found.notes == ("3 older runs are left out",)
    assert [one.name for one in found.operations if one.name.startswith("gemm1")] == [
        f"gemm1 #{number}" for number in range(4, 8)
    ]
    assert found.operation("gemm1 #4").after == ()


def test_a_file_whose_last_line_was_cut_off_is_read_without_it(path, recorder):
    for _ in range(3):
        recorder.launched("mine", grid=(1,), threads=32, registers=24, stream=1)
    whole = path.read_text()
    path.write_text(whole[:-9])
    assert [one.name for one in load_situation(path).operations] == ["mine", "mine #2"]


def test_every_line_is_json_and_the_file_is_one_at_every_moment(path, recorder):
    for number in range(20):
        recorder.launched("mine", grid=(1,), threads=32, registers=24, stream=1 + number % 2)
        for line in path.read_text().splitlines():
            json.loads(line)
        assert len(load_situation(path).operations) == number + 1


def test_a_full_disk_costs_the_record_and_not_the_launch(recorder, monkeypatch):
    def full(file, data):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(launch_recorder.os, "write", full)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        recorder.launched("mine", grid=(1,), threads=32, registers=24, stream=1)
    assert "not recorded: No space left" in str(said[0].message)


def test_one_recorder_at_a_time_is_active(path, monkeypatch):
    monkeypatch.setattr(launch_recorder, "LaunchFacts", MadeUpFacts)
    assert active_recorder() is None
    with record_launches(path) as recorder:
        assert active_recorder() is recorder
        with pytest.raises(ValueError, match="active already"), record_launches(path):
            pass
    assert active_recorder() is None
