"""Nsight Systems profiles for tests: sqlite files of the tables that an export has, with rows of our own."""

import sqlite3
from pathlib import Path

COLUMNS = [
    "start",
    "end",
    "deviceId",
    "streamId",
    "correlationId",
    "globalPid",
    "demangledName",
    "gridX",
    "gridY",
    "gridZ",
    "blockX",
    "blockY",
    "blockZ",
    "registersPerThread",
    "staticSharedMemory",
    "dynamicSharedMemory",
    "graphNodeId",
]
ROWS = [
    (1_000, 101_000, 0, 7, 1, 9, 1, 198, 1, 1, 256, 1, 1, 128, 0, 150_000, None),
    (102_000, 202_000, 0, 7, 2, 9, 2, 198, 1, 1, 256, 1, 1, 128, 1_024, 149_000, None),
]


def export(
    folder: Path,
    columns=COLUMNS,
    rows=ROWS,
    gpu=("NVIDIA H100 80GB HBM3", 132, 9, 0),
    names=((1, "my_gemm"), (2, "my_gemm2")),
) -> Path:
    """An export of these launches; `names` are the strings that they are named by."""
    path = folder / "profile.sqlite"
    places = [COLUMNS.index(name) for name in columns]
    connection = sqlite3.connect(path)
    connection.execute(f"CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL ({', '.join(columns)})")
    marks = ", ".join("?" * len(columns))
    for row in rows:
        connection.execute(
            f"INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES ({marks})",  # noqa: S608  # our own words
            [row[place] for place in places],
        )
    connection.execute("CREATE TABLE StringIds (id INTEGER, value TEXT)")
    connection.executemany("INSERT INTO StringIds VALUES (?, ?)", names)
    connection.execute("CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start, end, correlationId)")
    connection.executemany(
        "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (?, ?, ?)", [(10, 20, 1), (101_500, 5, 2)]
    )
    if gpu:
        connection.execute("CREATE TABLE TARGET_INFO_GPU (id, name, smCount, computeMajor, computeMinor)")
        connection.execute("INSERT INTO TARGET_INFO_GPU VALUES (0, ?, ?, ?, ?)", gpu)
    connection.commit()
    connection.close()
    return path
