"""Tables of an sqlite file from outside: values stored in named columns, nothing that the file defines.

Example: a table of one row has a generated column of 10 MB, or is a view that counts to a billion, or a
virtual table over that view. Each is refused by the schema, before anything is asked of it. What a damaged
file repeats (its pages may point at each other) ends where the rows say more than the file has bytes.

Memory is one row and a small cache; time is bounded by the size of the file. The file is not written to.
"""

import functools
import itertools
import sqlite3
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

from wavesim.errors import RecordingError
from wavesim.safe_io.escaping import one_line
from wavesim.safe_io.reading import open_data

MAX_SCHEMA_TEXT = 16 << 10  # bytes of one CREATE statement; Nsight Systems' longest is 5 KB
MAX_SCHEMA_STEPS = 10_000  # sqlite's instructions, seven or so for each table that it reads of
MAX_TEXT = 1 << 20
CELL_BYTES = 6  # the least that sqlite stores of a row beside its texts
LEAST_SECONDS, BYTES_PER_SECOND = 10, 1_000_000  # of this thread's CPU time; a tenth of what imports reach
IS_STORED = 0  # of `hidden`: neither generated nor a virtual table's own
LIMITS = {
    sqlite3.SQLITE_LIMIT_LENGTH: MAX_SCHEMA_TEXT,
    sqlite3.SQLITE_LIMIT_SQL_LENGTH: MAX_SCHEMA_TEXT,
    sqlite3.SQLITE_LIMIT_COLUMN: 500,
    sqlite3.SQLITE_LIMIT_EXPR_DEPTH: 50,
    sqlite3.SQLITE_LIMIT_COMPOUND_SELECT: 2,
    sqlite3.SQLITE_LIMIT_ATTACHED: 0,
    sqlite3.SQLITE_LIMIT_TRIGGER_DEPTH: 1,
    sqlite3.SQLITE_LIMIT_WORKER_THREADS: 0,
}
PRAGMAS = ("trusted_schema = OFF", "query_only = ON", "cell_size_check = ON", "mmap_size = 0")
# Of the schema that sqlite itself keeps.
CATALOGUE = {"sqlite_master": ("type", "name", "rootpage", "sql")}

Row = dict[str, Any]


@contextmanager
def open_tables(path: Path, wanted: Mapping[str, Collection[str]]) -> Iterator["Tables"]:
    """The tables of an sqlite file, of those named in `wanted` with its columns.

    Raises `RecordingError` in one line, also while they are read: no regular file, changes that are not yet
    in it, a damaged file, one that defines what is not stored, more rows or time than its size explains.
    """
    with open_data(path) as file:
        size = file.seek(0, 2)
    _require_whole(path)
    watched = _Watched(dict(wanted) | CATALOGUE)
    try:
        uri = f"file:{quote(str(path.resolve()))}?mode=ro&immutable=1"
        with closing(sqlite3.connect(uri, uri=True)) as connection:
            _restrict(connection, watched)
            yield Tables(path, size, connection, wanted)
    except (sqlite3.Error, OverflowError, UnicodeDecodeError) as error:
        if watched.was_interrupted(error):
            raise KeyboardInterrupt from None
        raise RecordingError(f"{path}: damaged sqlite file: {one_line(str(error))}") from None


def _require_whole(path: Path) -> None:
    """Refuses a file whose newest rows stand in a journal beside it: sqlite would be asked to ignore them."""
    for ending in ("-wal", "-journal"):
        beside = Path(f"{path.resolve()}{ending}")
        if beside.is_file() and beside.stat().st_size:
            raise RecordingError(
                f"{path}: {beside.name} beside it holds changes that are not yet in the file; close the "
                f"program that writes it, then run: sqlite3 {path.name} 'PRAGMA journal_mode = DELETE'"
            )


def _restrict(connection: sqlite3.Connection, watched: "_Watched") -> None:
    for limit, most in LIMITS.items():
        connection.setlimit(limit, most)
    for pragma in PRAGMAS:
        connection.execute(f"PRAGMA {pragma}")
    # Both are functions in C: one in Python would hand an interrupt that meets it to sqlite.
    connection.text_factory = functools.partial(str, encoding="utf-8", errors="replace")
    steps = itertools.repeat(0, MAX_SCHEMA_STEPS // 100)
    connection.set_progress_handler(functools.partial(next, steps, 1), 100)
    connection.set_authorizer(watched.decision)


class _Watched:
    """What statements may do: read these columns."""

    def __init__(self, columns: Mapping[str, Collection[str]]) -> None:
        self._columns = columns
        self._has_denied = False

    def decision(self, action: int, first: str | None, second: str | None, *place: str | None) -> int:
        """SQLITE_OK or SQLITE_DENY. The last of `place` is the view or trigger that does it: none may."""
        is_reading = action == sqlite3.SQLITE_READ and second in self._columns.get(first or "", ())
        is_asking = action == sqlite3.SQLITE_PRAGMA and first == "table_xinfo"
        if place[-1] is None and (action == sqlite3.SQLITE_SELECT or is_reading or is_asking):
            return sqlite3.SQLITE_OK
        self._has_denied = True
        return sqlite3.SQLITE_DENY

    def was_interrupted(self, error: Exception) -> bool:
        """Whether a statement was denied though `decision` did not: Ctrl-C ended that function."""
        code = getattr(error, "sqlite_errorcode", None)
        return code == sqlite3.SQLITE_AUTH and not self._has_denied


class Tables:
    """The wanted tables that a file has."""

    def __init__(
        self,
        path: Path,
        size: int,
        connection: sqlite3.Connection,
        wanted: Mapping[str, Collection[str]],
    ) -> None:
        self._path = path
        self._connection = connection
        self._size = size
        self._until = time.thread_time() + LEAST_SECONDS + size / BYTES_PER_SECOND
        self._columns = {table: self._stored(table, set(names)) for table, names in wanted.items()}
        connection.set_progress_handler(None, 0)
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_TEXT)

    def __contains__(self, table: str) -> bool:
        return bool(self._columns.get(table))

    def _stored(self, table: str, wanted: set[str]) -> tuple[str, ...]:
        rows = self._connection.execute(
            "SELECT type, rootpage, sql FROM sqlite_master WHERE name = ? COLLATE NOCASE", [table]
        ).fetchall()
        if not [kind for kind, *_ in rows if kind != "index"]:
            return ()
        for kind, root, sql in rows:
            is_plain = kind == "table" and root and str(sql).upper().startswith("CREATE TABLE")
            self._require(is_plain, f"{table} is no table of stored rows")
        columns = self._connection.execute(f'PRAGMA table_xinfo("{table}")').fetchall()
        names = tuple(name for _, name, *_ in columns if name in wanted)
        for _, name, *_, hidden in columns:
            self._require(name not in names or hidden == IS_STORED, f"{table}.{name} is computed, not stored")
        return names

    def rows(self, table: str, only: Collection[str] | None = None) -> Iterator[Row]:
        """A table's rows as dicts of the wanted columns that it has, or of some of them."""
        columns = [name for name in self._columns.get(table, ()) if only is None or name in only]
        if not columns:
            return
        left = self._size
        named = ", ".join(f'"{column}"' for column in columns)
        for values in self._connection.execute(f'SELECT {named} FROM "{table}"'):  # noqa: S608  # our own names
            texts = sum(len(value) for value in values if isinstance(value, str | bytes))
            left -= CELL_BYTES + texts
            self._require(left >= 0, f"{table} has more in its rows than the file has bytes")
            self._require(time.thread_time() < self._until, f"{table} takes too long for the file's size")
            yield dict(zip(columns, values, strict=True))

    def _require(self, is_met: bool, what: str) -> None:
        if not is_met:
            raise RecordingError(f"{self._path}: {what}; export the report again with `nsys export`")
