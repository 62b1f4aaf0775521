"""sqlite files made to do more than hold rows: refused for what they define, before it costs anything."""

import os
import signal
import sqlite3
import struct
from itertools import pairwise
from pathlib import Path

import pytest

from wavesim.errors import RecordingError
from wavesim.profile.profile_file import load_profile

KERNELS = "CUPTI_ACTIVITY_KIND_KERNEL"
TABLE = f"CREATE TABLE {KERNELS} (start, end)"
INSERT = f"INSERT INTO {KERNELS}"
ONE_ROW = f"{INSERT} (start, end) VALUES (1, 2)"
ENDLESS = "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t) SELECT n AS start, n AS end FROM t"
COUNT = ENDLESS.replace("FROM t)", "FROM t WHERE n < 2000)")
MANY_ROWS = f"{INSERT} {COUNT}"


def made(path: Path, *statements: str) -> Path:
    connection = sqlite3.connect(path)
    connection.executescript(";\n".join(statements))
    connection.close()
    return path


@pytest.mark.parametrize("how", ["VIRTUAL", "STORED"])
@pytest.mark.parametrize("column", ["demangledName TEXT", "deviceId INTEGER"])
def test_a_generated_column_is_not_computed(how: str, column: str, tmp_path: Path):
    path = made(
        tmp_path / "x.sqlite",
        f"CREATE TABLE {KERNELS} (start, end, {column} AS (hex(zeroblob(1000))) {how})",
        ONE_ROW,
    )
    with pytest.raises(RecordingError, match="is computed, not stored"):
        load_profile(path)


@pytest.mark.parametrize("module", ["fts4(content=v, start, end)", "fts5(start, end, content=v)"])
def test_a_virtual_table_does_not_run_the_view_behind_it(module: str, tmp_path: Path):
    try:
        path = made(
            tmp_path / "x.sqlite",
            f"CREATE VIEW v AS {COUNT}",
            f"CREATE VIRTUAL TABLE {KERNELS} USING {module}",
        )
    except sqlite3.OperationalError as error:
        pytest.skip(f"this sqlite has no such module: {error}")
    with pytest.raises(RecordingError, match="no table of stored rows"):
        load_profile(path)


@pytest.mark.parametrize("table", ["CUPTI_ACTIVITY_KIND_MEMCPY", "StringIds", "TARGET_INFO_GPU"])
def test_a_view_among_the_other_tables_is_not_left_out_in_silence(table: str, tmp_path: Path):
    path = made(
        tmp_path / "x.sqlite",
        TABLE,
        ONE_ROW,
        f"CREATE VIEW {table} AS SELECT 1 AS id, 'x' AS value, 2 AS start, 3 AS correlationId",
    )
    with pytest.raises(RecordingError, match=f"{table} is no table of stored rows"):
        load_profile(path)


def test_views_and_triggers_that_are_not_asked_do_not_matter(tmp_path: Path):
    path = made(
        tmp_path / "x.sqlite",
        TABLE,
        ONE_ROW,
        f"CREATE VIEW mine AS {ENDLESS}",
        f"CREATE TRIGGER other AFTER INSERT ON {KERNELS} BEGIN SELECT 1; END",
    )
    assert load_profile(path).kernel_count == 1


def test_a_schema_of_thousands_of_views_is_refused(tmp_path: Path):
    views = [f"CREATE VIEW v{n} AS SELECT 1" for n in range(2_000)]
    path = made(tmp_path / "x.sqlite", "BEGIN", TABLE, ONE_ROW, *views, "COMMIT")
    with pytest.raises(RecordingError, match="damaged sqlite file: interrupted"):
        load_profile(path)


@pytest.mark.timeout(60)
def test_pages_that_repeat_do_not_make_more_rows_than_the_file_holds(tmp_path: Path):
    path = made(tmp_path / "x.sqlite", "PRAGMA page_size = 512", TABLE, MANY_ROWS)
    data = bytearray(path.read_bytes())
    root, *others = [page for page in range(512, len(data), 512) if data[page] in (5, 13)]
    leaves = [page for page in others if data[page] == 13][:4]
    for page, child in pairwise([root, *leaves]):
        data[page : page + 512] = with_one_child(data[root : root + 512], child // 512 + 1)
    path.write_bytes(data)
    with pytest.raises(RecordingError, match="has more in its rows than the file has bytes"):
        load_profile(path)


def with_one_child(page: bytearray, child: int) -> bytearray:
    """An inner page of a table whose children are all the same page."""
    (cells,) = struct.unpack_from(">H", page, 3)
    for place in (8, *struct.unpack_from(f">{cells}H", page, 12)):
        struct.pack_into(">I", page, place, child)
    return page


def with_rows_in_its_log(path: Path) -> Path:
    """A database whose last 50 rows are in the file beside it only, as while it is written."""
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute(TABLE)
    connection.executemany(f"{INSERT} VALUES (?, ?)", [(n, n + 1) for n in range(50)])
    connection.commit()
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.executemany(f"{INSERT} VALUES (?, ?)", [(n, n + 1) for n in range(50, 100)])
    connection.commit()
    whole, beside = path.read_bytes(), Path(f"{path}-wal").read_bytes()
    connection.close()
    path.write_bytes(whole)
    Path(f"{path}-wal").write_bytes(beside)
    return path


def test_rows_that_are_only_in_the_write_ahead_log_are_not_left_out(tmp_path: Path):
    path = with_rows_in_its_log(tmp_path / "x.sqlite")
    with pytest.raises(RecordingError, match=r"x\.sqlite-wal beside it holds changes.*journal_mode = DELETE"):
        load_profile(path)
    made(path, "PRAGMA journal_mode = DELETE")  # as the message says
    assert load_profile(path).kernel_count == 100


def test_a_journal_beside_the_file_is_not_ignored(tmp_path: Path):
    path = made(tmp_path / "x.sqlite", TABLE)
    Path(f"{path}-journal").write_bytes(b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7" + bytes(512))
    with pytest.raises(RecordingError, match=r"x\.sqlite-journal beside it holds changes"):
        load_profile(path)


def test_ctrl_c_inside_a_handler_of_sqlite_is_an_interrupt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Every function in Python that sqlite calls is interrupted in turn; sqlite swallows what they raise."""
    path = made(
        tmp_path / "x.sqlite",
        TABLE,
        MANY_ROWS,
    )

    def interrupted(handler):
        def during(*arguments):
            signal.raise_signal(signal.SIGINT)
            return handler(*arguments)

        return during if hasattr(handler, "__code__") or hasattr(handler, "__func__") else handler

    class Interrupted(sqlite3.Connection):
        def set_progress_handler(self, handler, n):
            super().set_progress_handler(interrupted(handler), 100 if handler else 0)

        def set_authorizer(self, handler):
            super().set_authorizer(interrupted(handler))

    real = sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", lambda *args, **more: real(*args, factory=Interrupted, **more))
    with pytest.raises(KeyboardInterrupt):
        load_profile(path)


@pytest.mark.timeout(60)
@pytest.mark.parametrize("kind", ["fifo", "folder", "/dev/zero"])
def test_what_is_no_regular_file_is_refused_at_once(kind: str, tmp_path: Path):
    path = tmp_path / "x"
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    else:
        path = Path(kind)
    with pytest.raises(RecordingError, match="not a regular file"):
        load_profile(path)
