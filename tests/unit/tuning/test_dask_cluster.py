"""A Dask cluster that fails: what was asked is answered all the same, or one line says in 10 s why not."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path

import pytest

import wavesim
from wavesim.errors import DescriptionError, DeviceError
from wavesim.model.device import load
from wavesim.tuning import dask_cluster
from wavesim.tuning.batches import answered
from wavesim.tuning.dask_cluster import dask_pool
from wavesim.tuning.same_code import PACKAGE, code_hash
from wavesim.tuning.search import tune
from wavesim.workloads.catalogue import workload

pytest.importorskip("distributed", reason="pip install distributed")
ITEMS = list(range(24))
LONGEST_S = 10


def doubled(batch):
    return [2 * item for item in batch]


def ends_itself(test, marker, batch):
    """Kills the process that has the batch, once; never the test's, where a slow cluster's work is done."""
    return ends(os.getpid(), signal.SIGKILL, marker, batch) if os.getpid() != test else doubled(batch)


def ends(process, number, marker, batch):
    """Sends a process a signal, once."""
    if not marker.exists():
        marker.touch()
        os.kill(process, number)
    time.sleep(0.05)
    return doubled(batch)


class Cluster:
    """A scheduler and workers, each a process that can be killed."""

    def __init__(self, folder):
        self.folder, self.processes = folder, []
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.address = f"tcp://127.0.0.1:{self.port}"
        self.scheduler = self.start(
            "scheduler", "--host", "127.0.0.1", "--port", str(self.port), "--no-dashboard"
        )

    def start(self, *words, path=None):
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, path or sys.path))}
        command = [sys.executable, "-P", "-c", "from dask.__main__ import main; main()", *words]
        with (self.folder / "log.txt").open("a") as log:
            self.processes.append(
                subprocess.Popen(command, env=environment, cwd=self.folder, stdout=log, stderr=log)
            )
        return self.processes[-1]

    def add_worker(self, path=None):
        words = ("--no-nanny", "--nthreads", "1", "--no-dashboard", "--memory-limit", "0")
        return self.start("worker", self.address, *words, "--local-directory", str(self.folder), path=path)

    def wait_for(self, count):
        from distributed import Client

        with Client(self.address, set_as_default=False, timeout=30) as client:
            client.wait_for_workers(count, timeout=30)
        return self

    def close(self):
        for process in self.processes:
            process.kill()
            process.wait()


@pytest.fixture
def cluster(tmp_path):
    made = Cluster(tmp_path)
    yield made
    made.close()


@pytest.fixture
def patient(monkeypatch):
    """For a cluster that nobody ends: on a busy machine it may answer late."""
    monkeypatch.setattr(dask_cluster, "GONE_S", 20)


def run(work, pool):
    lost = []
    outcomes = {
        item: answer
        for batch, answers in answered(work, [[item] for item in ITEMS], pool, lost)
        for item, answer in zip(batch, answers, strict=True)
    }
    assert outcomes == {item: 2 * item for item in ITEMS}
    return lost


@pytest.mark.slow
def test_a_killed_workers_work_is_done_by_another_and_it_is_named(cluster, patient, tmp_path):
    cluster.add_worker()
    cluster.add_worker()
    cluster.wait_for(2)
    with dask_pool(cluster.address) as pool:
        assert [name[:6] for name in run(partial(ends_itself, os.getpid(), tmp_path / "ended"), pool)] == [
            "tcp://"
        ]


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
@pytest.mark.parametrize("victim", ["scheduler", "worker"])
def test_what_a_lost_cluster_has_not_answered_is_done_here_within_seconds(cluster, tmp_path, victim, number):
    worker = cluster.add_worker()
    cluster.wait_for(1)
    process = (worker if victim == "worker" else cluster.scheduler).pid
    with dask_pool(cluster.address) as pool:
        began = time.monotonic()
        lost = run(partial(ends, process, number, tmp_path / "ended"), pool)
    assert time.monotonic() - began < LONGEST_S
    assert "what was left was done here" in lost[0]
    assert ("worker is gone" if victim == "worker" else "cheduler") in lost[0]


@pytest.mark.slow
def test_a_scheduler_that_ends_after_the_last_answer_loses_nothing(cluster, patient):
    cluster.add_worker()
    cluster.wait_for(1)
    with dask_pool(cluster.address) as pool:
        assert run(doubled, pool) == []
        cluster.scheduler.kill()
        assert pool.lost_workers() == []


@pytest.mark.slow
def test_a_worker_without_wavesim_or_with_other_code_is_given_no_work(cluster, patient, tmp_path):
    (none := tmp_path / "none").mkdir()
    (none / "wavesim.py").write_text("raise ImportError('no wavesim here')")
    shutil.copytree(
        PACKAGE, tmp_path / "other" / "wavesim", ignore=shutil.ignore_patterns("bench", "__pycache__")
    )
    with (tmp_path / "other" / "wavesim" / "tuning" / "sweep.py").open("a") as file:
        file.write("\n\ndef answer_batch(batch):\n    return [1 for _ in batch]\n")
    cluster.add_worker([none, *sys.path])
    cluster.add_worker([tmp_path / "other", *sys.path])
    cluster.wait_for(2)
    with pytest.raises(DeviceError, match="is of no use: it has") as refused, dask_pool(cluster.address):
        pass
    assert f"this is wavesim {code_hash()}" in str(refused.value)
    cluster.add_worker()
    cluster.wait_for(3)
    pipeline, device = workload("toy"), load("toy")
    with dask_pool(cluster.address) as pool:
        tuning = tune(pipeline, device, executor=pool)
    assert [row.predicted_ns for row in tuning.plans] == [
        row.predicted_ns for row in tune(pipeline, device).plans
    ]
    assert sum("left out: it has" in name for name in tuning.lost_workers) == 2


def test_results_of_other_code_are_not_taken_for_todays(tmp_path, monkeypatch):
    path, pipeline, device = tmp_path / "results.jsonl", workload("toy"), load("toy")
    tune(pipeline, device, results=path)
    count = len(path.read_text().splitlines())
    tune(pipeline, device, results=path)
    assert len(path.read_text().splitlines()) == count
    monkeypatch.setattr("wavesim.tuning.candidates.code_hash", lambda: "other")
    tune(pipeline, device, results=path)
    assert len(path.read_text().splitlines()) == 2 * count
    assert Path(wavesim.__file__).parent == PACKAGE


@contextmanager
def listener(answer):
    """A port that says nothing, or something that is not Dask's."""
    with ExitStack() as open_sockets:
        server = open_sockets.enter_context(socket.create_server(("127.0.0.1", 0)))

        def serve():
            while True:
                try:
                    caller = open_sockets.enter_context(server.accept()[0])
                except OSError:
                    return
                if answer:
                    with suppress(OSError):
                        caller.sendall(answer)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield server
        server.shutdown(socket.SHUT_RDWR)
        thread.join()


@pytest.mark.parametrize(
    "answer", [b"", b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\xff" * 4096, b"\x01" + bytes(7) + b"\xff" * 64]
)
def test_a_port_where_no_scheduler_speaks_is_one_line_within_ten_seconds(answer, capfd):
    began = time.monotonic()
    with listener(answer) as server:
        address = f"tcp://127.0.0.1:{server.getsockname()[1]}"
        with pytest.raises(DeviceError, match="no Dask scheduler answers") as refused, dask_pool(address):
            pass
    assert time.monotonic() - began < LONGEST_S
    assert "\n" not in str(refused.value)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("address", "kind", "words"),
    [
        ("nowhere", DescriptionError, "write the scheduler's address"),
        ("tcp://127.0.0.1:9", DeviceError, "no Dask scheduler answers at 'tcp://127.0.0.1:9'"),
        *((word, DeviceError, "no Dask scheduler answers") for word in (
            "gopher://127.0.0.1:9", "tcp://", ":", "tcp://no.such.host.invalid:1", "tls://127.0.0.1:9",
            "tcp://127.0.0.1:999999", "tcp://[::1", "inproc://nothing/1", "ucx://127.0.0.1:9",
        )),
    ],
)  # fmt: skip
def test_an_address_where_nobody_is_is_one_clear_line(address, kind, words, capfd, monkeypatch):
    monkeypatch.setattr("wavesim.tuning.dask_cluster.CONNECT_S", 1)
    with pytest.raises(kind, match=words) as refused, dask_pool(address):
        pass
    assert "\n" not in str(refused.value)
    assert capfd.readouterr() == ("", "")


def test_without_distributed_the_install_line_is_told(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(DeviceError, match="pip install distributed"), dask_pool("tcp://127.0.0.1:9"):
        pass
