"""Nsight Systems exports: what a schema can define, what a damaged page can say; `wavesim advise FILE`."""

import random
import sqlite3
import struct
import tempfile
from pathlib import Path
from typing import Any

from fuzz_profiles import call
from harness import Target
from mutations import HOSTILE_NUMBERS, HOSTILE_TEXTS, with_bytes_changed

KERNELS = "CUPTI_ACTIVITY_KIND_KERNEL"
PLACE = ("start", "end", "deviceId", "streamId", "correlationId", "globalPid")
COLUMNS = {
    KERNELS: (
        *(*PLACE, "demangledName", "gridX", "gridY", "gridZ", "blockX", "blockY", "blockZ", "graphNodeId"),
        *("registersPerThread", "staticSharedMemory", "dynamicSharedMemory"),
    ),
    "CUPTI_ACTIVITY_KIND_MEMCPY": PLACE,
    "CUPTI_ACTIVITY_KIND_RUNTIME": ("start", "end", "correlationId"),
    "StringIds": ("id", "value"),
    "TARGET_INFO_GPU": ("id", "name", "computeMajor", "computeMinor", "smCount", "maxShmemPerSm"),
}
USUAL = {
    "deviceId": 0,
    "streamId": 7,
    "globalPid": 9,
    "gridY": 1,
    "gridZ": 1,
    "blockX": 256,
    "blockY": 1,
    "blockZ": 1,
    "registersPerThread": 128,
    "staticSharedMemory": 0,
    "dynamicSharedMemory": 100_000,
    "graphNodeId": None,
    "computeMajor": 9,
    "computeMinor": 0,
    "smCount": 132,
    "maxShmemPerSm": 233_472,
}
ENDLESS = "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t) SELECT n FROM t"
COMPUTED = (
    "hex(zeroblob(500000))",
    "printf('%900000d', start)",
    "replace(hex(zeroblob(1000)), '0', hex(zeroblob(300)))",
    "abs(random())",
    "start",
)
TYPES = ("", "INTEGER", "TEXT", "REAL", "BLOB", "INTEGER NOT NULL", "TEXT COLLATE NOCASE", "ANY")
VIRTUAL = ("fts4(content=v, n)", "fts5(n, content=v)", "rtree(id, a, b)", "dbstat", "fts3(n)", "sqlite_stmt")
DEFAULTS = ("", "", "", " DEFAULT 7", " DEFAULT (hex(zeroblob(400000)))")
MOST_BYTES = 64 << 20  # of a database; more does not fit into a worker
INNER, LEAF = 5, 13  # kinds of page of a table


def made(chance: random.Random, data: bytes) -> bytes:
    """A database of a schema made by chance, or pages of one changed."""
    if chance.random() < 0.6:
        data = _database(chance)
    if chance.random() < 0.5:
        change = chance.choice([_with_pages_changed, _with_header_changed, with_bytes_changed])
        data = change(chance, data)
    return data


def _database(chance: random.Random) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x"
        connection = sqlite3.connect(path, isolation_level=None)
        for statement in _settings(chance):
            _try(connection, statement)
        connection.execute("BEGIN")
        for table in COLUMNS:
            if table == KERNELS or chance.random() < 0.8:
                _table(chance, connection, table)
        for number in range(chance.choice([0, 0, 0, 0, 3, 300, 3_000])):
            kind = chance.choice(
                ["VIEW v{} AS " + ENDLESS, "TABLE t{} (a, b)", "INDEX i{} ON StringIds (id)"]
            )
            _try(connection, f"CREATE {kind.format(number)}")
        if chance.random() < 0.1:
            _change_schema(chance, connection)
        _try(connection, "COMMIT")
        connection.close()
        return path.read_bytes()


def _settings(chance: random.Random) -> list[str]:
    page_bytes = chance.choice([512, 512, 1024, 4096, 65536])
    return [
        f"PRAGMA page_size = {page_bytes}",
        f"PRAGMA max_page_count = {MOST_BYTES // page_bytes}",
        f"PRAGMA encoding = '{chance.choice(['UTF-8', 'UTF-8', 'UTF-16le', 'UTF-16be'])}'",
        f"PRAGMA auto_vacuum = {chance.choice([0, 0, 1, 2])}",
        "CREATE VIEW v AS " + ENDLESS.replace("FROM t)", f"FROM t WHERE n < {chance.choice([9, 10**6])})"),
    ]


def _try(connection: sqlite3.Connection, statement: str, values: tuple[Any, ...] = ()) -> None:
    """Not every sqlite has every module, and not all that chance makes is allowed."""
    try:
        connection.execute(statement, values)
    except (sqlite3.Error, OverflowError, UnicodeError):
        return


def _table(chance: random.Random, connection: sqlite3.Connection, table: str) -> None:
    shape = chance.random()
    if shape < 0.04:
        _try(connection, f"CREATE VIEW {table} AS {ENDLESS}")
        return
    if shape < 0.1:
        _try(connection, f"CREATE VIRTUAL TABLE {table} USING {chance.choice(VIRTUAL)}")
        return
    kept = [name for name in COLUMNS[table] if chance.random() < 0.97] or ["start"]
    computed = {name for name in kept if chance.random() < 0.01}
    texts = [
        f"{name} {chance.choice(TYPES)} AS ({chance.choice(COMPUTED)}) {chance.choice(['STORED', 'VIRTUAL'])}"
        if name in computed
        else f'"{name}" {chance.choice(TYPES)}{chance.choice(DEFAULTS)}'
        for name in kept
    ]
    end = chance.choice(["", "", "", "", " STRICT", f", PRIMARY KEY ({kept[0]})) WITHOUT ROWID --"])
    _try(connection, f"CREATE TABLE {table} ({', '.join(texts)}{end if end.startswith(',') else ')' + end}")
    plain = [name for name in kept if name not in computed]
    insert = f"INSERT INTO {table} ({', '.join(plain)}) VALUES ({', '.join('?' * len(plain))})"  # noqa: S608
    for row in range(chance.choice([1, 5, 30, 300])):
        _try(connection, insert, tuple(_value(chance, name, row) for name in plain))


def _value(chance: random.Random, column: str, row: int) -> Any:
    if chance.random() < 0.03:
        return chance.choice([None, b"\xff\xfe", *HOSTILE_TEXTS, *HOSTILE_NUMBERS])
    usual = {
        "start": 1_000 * row,
        "end": 1_000 * row + 900,
        "correlationId": row,
        "id": row,
        "gridX": 1 + row % 7 * 99,
    }
    names = {"demangledName": row % 5, "value": f"gemm{row}", "name": "NVIDIA H100"}
    return {**USUAL, **usual, **names}[column]


def _change_schema(chance: random.Random, connection: sqlite3.Connection) -> None:
    """Lies in the table of tables."""
    _try(connection, "PRAGMA writable_schema = ON")
    column, value = chance.choice(
        [
            ("type", "view"),
            ("type", "table"),
            ("rootpage", chance.choice([0, 1, 2, 3, -1, 10**9])),
            ("sql", f"CREATE VIEW {KERNELS} AS {ENDLESS}"),
            ("sql", f"CREATE VIRTUAL TABLE {KERNELS} USING fts4(content=v, n)"),
            ("sql", f"CREATE TABLE {KERNELS} (start, end AS (hex(zeroblob(900000))))"),
            ("name", KERNELS.lower()),
            ("sql", f"CREATE TABLE {KERNELS} (" + "a" * 100_000 + ")"),
        ]
    )
    where = chance.choice(["", f"WHERE name = '{KERNELS}'", "WHERE name = 'v'"])
    _try(connection, f"UPDATE sqlite_master SET {column} = ? {where}", (value,))  # noqa: S608  # our own words


def _page_size(data: bytes) -> int:
    size = struct.unpack_from(">H", data, 16)[0] if len(data) >= 100 else 0
    return 65_536 if size == 1 else max(size, 512)


def _with_pages_changed(chance: random.Random, data: bytes) -> bytes:
    """Children, cells and sizes of a table's pages: repeated, swapped, out of range."""
    changed, size = bytearray(data), _page_size(data)
    pages = range(0, len(data) - size + 1, size)
    for _ in range(chance.choice([1, 2, 8])):
        inner = [page for page in pages if changed[page] == INNER and chance.random() < 0.7]
        if inner and chance.random() < 0.6:
            page, child = chance.choice(inner), chance.randrange(len(pages) + 2)
            places = _children(changed[page : page + size])
            for place in places if chance.random() < 0.6 else [chance.choice(places)]:
                struct.pack_into(">I", changed, page + place, child)
        elif pages:
            page, other = chance.choice(pages), chance.choice(pages)
            if chance.random() < 0.3:
                changed[page : page + size] = changed[other : other + size]
            else:
                place = page + chance.randrange(0, min(size, 200))
                changed[place] = chance.choice([0, 1, 2, INNER, LEAF, 127, 128, 255])
    return bytes(changed)


def _children(page: bytearray) -> list[int]:
    """Where an inner page says which its children are."""
    (cells,) = struct.unpack_from(">H", page, 3)
    cells = min(cells, (len(page) - 12) // 2)
    return [8, *(place for place in struct.unpack_from(f">{cells}H", page, 12) if place + 4 <= len(page))]


def _with_header_changed(chance: random.Random, data: bytes) -> bytes:
    """Page size, reserved bytes, versions, encoding and free pages of the file's first hundred bytes."""
    changed = bytearray(data)
    for _ in range(chance.choice([1, 1, 3])):
        if len(changed) >= 100:
            changed[chance.randrange(16, 100)] = chance.choice([0, 1, 2, 3, 4, 64, 255])
    return bytes(changed)


TARGET = Target(made, call)
