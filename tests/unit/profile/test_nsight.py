"""Nsight Systems exports: the columns that are there are read, and what is damaged is one clear line."""

import sqlite3
from pathlib import Path

import pytest
from nsight_exports import COLUMNS, ROWS, export

from wavesim.errors import RecordingError
from wavesim.profile.advice import advise
from wavesim.profile.profile_file import load_profile


def test_an_export_is_a_profile_like_kinetos(tmp_path: Path):
    advice = advise(load_profile(export(tmp_path)))
    (pair,) = advice.pairs
    assert (pair.producer.shape.name, pair.consumer.shape.name) == ("my_gemm", "my_gemm2")
    assert pair.consumer.shape.shared_bytes == 150_024
    assert (pair.producer.waves.waves, pair.late, pair.gap_ns) == (1.5, 1, 1_000)
    assert pair.saving.likely_ns == pytest.approx(50_000)


def test_columns_of_another_version_may_be_missing(tmp_path: Path):
    kept = [name for name in COLUMNS if name not in ("graphNodeId", "globalPid", "registersPerThread")]
    advice = advise(load_profile(export(tmp_path, kept)))
    assert advice.profile.kernel_count == 2
    assert advice.blind_share == 1.0


def test_without_its_gpu_table_the_device_can_be_named(tmp_path: Path):
    path = export(tmp_path, gpu=None)
    assert advise(load_profile(path)).blind_share == 1.0
    assert advise(load_profile(path, "h100")).blind_share == 0.0


def test_graph_nodes_are_replays(tmp_path: Path):
    rows = [(*row[:-1], 12) for row in ROWS]
    assert load_profile(export(tmp_path, rows=rows)).launches.is_replayed.all()


def test_a_damaged_or_foreign_database_is_one_clear_line(tmp_path: Path):
    path = export(tmp_path)
    whole = path.read_bytes()
    for data in (whole[:5_000], whole[:100] + b"\xff" * 3_000 + whole[3_100:], whole[:16]):
        path.write_bytes(data)
        with pytest.raises(RecordingError, match=r"profile\.sqlite: [^\n]+$"):
            load_profile(path)
    sqlite3.connect(tmp_path / "other.sqlite").execute("CREATE TABLE x (y)").connection.close()
    with pytest.raises(RecordingError, match="CUPTI_ACTIVITY_KIND_KERNEL"):
        load_profile(tmp_path / "other.sqlite")


def test_a_view_in_place_of_the_table_is_not_run(tmp_path: Path):
    path = tmp_path / "view.sqlite"
    connection = sqlite3.connect(path)
    endless = "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t) SELECT n FROM t"
    connection.execute(f"CREATE VIEW CUPTI_ACTIVITY_KIND_KERNEL AS {endless}")
    connection.close()
    with pytest.raises(RecordingError, match="no table"):
        load_profile(path)
