import io
import lzma
import shutil

import numpy as np
import pytest

from wavesim.errors import RecordingError
from wavesim.recordings.shipped import FOLDER
from wavesim.trace.trace import Trace
from wavesim.trace.trace_archive import ARCHIVE, has_trace, load_trace, pack_traces, unpack_traces

NAMES = [f"gpt3-mlp_128x256_m{tokens}_row_row.npz" for tokens in (256, 512, 768)]


@pytest.fixture
def folder(tmp_path):
    for name in NAMES:
        load_trace(FOLDER / "h200" / name).save(tmp_path / name)
    return tmp_path


def assert_equal(one: Trace, other: Trace) -> None:
    assert one.header == other.header
    assert one.stage.tolist() == other.stage.tolist()
    assert one.cycles.tolist() == other.cycles.tolist()


def test_packed_traces_are_the_traces_and_a_folder_without_any_is_left_alone(folder):
    before = {name: Trace.load(folder / name) for name in NAMES}
    assert pack_traces(folder) == folder / ARCHIVE
    assert [path.name for path in folder.iterdir()] == [ARCHIVE]
    for name, trace in before.items():
        assert has_trace(folder / name)
        assert_equal(load_trace(folder / name), trace)
    assert not has_trace(folder / "other.npz")
    assert pack_traces(folder) is None


def test_the_same_traces_make_the_same_bytes(folder, tmp_path_factory):
    other = tmp_path_factory.mktemp("other")
    for name in reversed(NAMES):
        shutil.copy(folder / name, other / name)
    assert pack_traces(folder).read_bytes() == pack_traces(other).read_bytes()


def test_a_loose_file_goes_before_the_packed_one_and_takes_its_place(folder):
    pack_traces(folder)
    newer = load_trace(FOLDER / "h200" / "gpt3-mlp_128x256_m1024_row_row.npz")
    newer.save(folder / NAMES[0])
    assert_equal(load_trace(folder / NAMES[0]), newer)
    pack_traces(folder)
    assert not (folder / NAMES[0]).exists()
    assert_equal(load_trace(folder / NAMES[0]), newer)
    assert has_trace(folder / NAMES[1])


def test_traces_are_unpacked_as_files_of_their_own(folder):
    pack_traces(folder)
    (folder / "out").mkdir()
    unpack_traces(folder, folder / "out")
    assert sorted(path.name for path in (folder / "out").iterdir()) == sorted(NAMES)
    assert_equal(Trace.load(folder / "out" / NAMES[2]), load_trace(folder / NAMES[2]))


@pytest.mark.parametrize("damage", [lambda data: data[:-40], lambda data: b"no archive", lambda data: b""])
def test_a_damaged_archive_is_named(folder, damage):
    path = pack_traces(folder)
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(RecordingError, match=r"traces\.npz\.xz"):
        load_trace(folder / NAMES[0])


def test_a_missing_trace_is_named(folder):
    with pytest.raises(RecordingError, match=r"other\.npz"):
        load_trace(folder / "other.npz")


def test_a_header_of_more_items_than_a_trace_has_is_refused_before_it_is_read(folder):
    with np.load(folder / NAMES[0]) as archive:
        arrays = dict(archive)
    arrays["header"] = np.frombuffer(b"[" + b"[]," * (5 << 20) + b"0]", dtype=np.uint8)
    np.savez_compressed(folder / "long.npz", **arrays)
    with pytest.raises(RecordingError, match=r"field 'header' has 10,485,7.. items; at most 4,194,304"):
        Trace.load(folder / "long.npz")
    arrays["header"] = np.zeros(70 << 20, dtype=np.uint8)
    np.savez_compressed(folder / "long.npz", **arrays)
    with pytest.raises(RecordingError, match="a header of 73,400,448 bytes"):
        Trace.load(folder / "long.npz")


@pytest.mark.parametrize(
    "names",
    [
        b'{"a": 1}',
        b'[["a.npz", -1]]',
        b'[["a.npz", 1, -1]]',
        b'[["a.npz", 99]]',
        b"[[[], 1]]",
        b"7",
        b"[]",
        b"",
    ],
)
@pytest.mark.parametrize("header", [b"{}", b"[]", b"[1]", b'"x"'])
def test_an_archive_whose_parts_do_not_fit_is_refused_in_one_line(names, header, tmp_path):
    columns = {"names": names, "header": header, "issue_ns": b"\1"}
    data = io.BytesIO()
    np.savez(data, **{key: np.frombuffer(text, dtype=np.uint8) for key, text in columns.items()})
    (tmp_path / ARCHIVE).write_bytes(lzma.compress(data.getvalue()))
    with pytest.raises(RecordingError) as refused:
        load_trace(tmp_path / "a.npz")
    assert "\n" not in str(refused.value)
