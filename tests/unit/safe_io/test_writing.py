"""Writing: the earlier file is whole whatever fails, links and rights stay, and the error names the file."""

import errno
import io
import itertools
import os
import re
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import plotly.graph_objects as go
import pytest

from wavesim.cli.command_line import main
from wavesim.errors import OutputError
from wavesim.model.device import load
from wavesim.plan.plan import SemaphoreSync
from wavesim.safe_io.reading import inputs_kept, keep_folder
from wavesim.safe_io.writing import (
    append_line,
    open_appending,
    replacing,
    require_writable,
    write_bytes,
    write_text,
)
from wavesim.sim.simulation import simulate
from wavesim.view.figure import save_figure
from wavesim.view.page import write_page
from wavesim.view.perfetto import write_perfetto
from wavesim.workloads.figure_one import TILE_NS, toy

BEFORE = b"what was there before\n"
CATALOGUE = Path(__file__).parents[3] / "wavesim" / "model" / "devices"
PROFILE = Path(__file__).parents[3] / "wavesim" / "recordings" / "profiles"


def trace():
    from wavesim.costs.cost_model import zero_cost

    return simulate(toy(), SemaphoreSync(), load("toy"), zero_cost(toy(), TILE_NS))


def command(*words):
    """A command that writes a file: an error of its is status 2, here an exception as elsewhere."""
    if main([str(word) for word in words]) != 0:
        raise OutputError


WRITERS = {
    "out.txt": lambda path: write_bytes(path, bytes(5_000)),
    "trace.npz": lambda path: trace().save(path),
    "trace.json": lambda path: write_perfetto(path, trace()),
    "trace.json.gz": lambda path: write_perfetto(path, trace()),
    "page.html": lambda path: write_page(path, title="title", figures=[]),
    "figure.html": lambda path: save_figure(go.Figure(), path),
    "pair.cuh": lambda path: command("gen", "toy", "--sync", "row", "--out", path),
}


class FullDisk(io.FileIO):
    """A file whose write of that number finds no room."""

    def __init__(self, number, full_at):
        super().__init__(number, "wb")
        self.left = full_at

    def write(self, data):
        if self.left == 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self.left -= 1
        return super().write(data)


def opener(full_at):
    """`os.fdopen`, on a disk that is full at that write."""
    fdopen = os.fdopen

    def opened(number, mode):
        if mode == "wb":
            return io.BufferedWriter(FullDisk(number, full_at), buffer_size=64)
        return fdopen(number, mode)

    return opened


def test_a_path_that_cannot_be_written_is_refused_before_the_work(tmp_path):
    (tmp_path / "file").write_text("whole")
    for bad in (tmp_path, tmp_path / "file" / "in.html", tmp_path / ("x" * 300) / "in.html", "a\0b"):
        with pytest.raises(OutputError, match=r"another path|not a regular file"):
            require_writable(bad)
    require_writable(None, tmp_path / "file", tmp_path / "new" / "deep" / "in.html", "/dev/stdout")
    assert (tmp_path / "file").read_text() == "whole"
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize("name", WRITERS)
def test_when_the_disk_is_full_at_any_write_the_earlier_file_is_whole(name, tmp_path, monkeypatch, capsys):
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(BEFORE)
    for full_at in itertools.count():
        with monkeypatch.context() as patch:
            patch.setattr(os, "fdopen", opener(full_at))
            try:
                WRITERS[name](path)
                break
            except OutputError as error:
                words = f"{error}{capsys.readouterr().err}"
        assert path.read_bytes() == BEFORE
        assert list(path.parent.iterdir()) == [path]
        assert f"{path}: cannot be written (No space left on device)" in words
        assert "What was there before is whole" in words
    assert full_at >= 1
    assert path.read_bytes() != BEFORE
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize("step", ["fsync", "replace", "open"])
def test_a_file_that_cannot_be_opened_flushed_or_renamed_leaves_the_earlier_one(tmp_path, monkeypatch, step):
    def fail(*_, **__):
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    path = tmp_path / "out.txt"
    path.write_bytes(BEFORE)
    monkeypatch.setattr(Path if step == "replace" else os, step, fail)
    with pytest.raises(OutputError, match=r"out.txt: cannot be written \(Input/output error\)"):
        write_text(path, "new")
    monkeypatch.undo()
    assert path.read_bytes() == BEFORE
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("error", [KeyboardInterrupt, ZeroDivisionError])
def test_an_interrupt_while_a_file_is_written_leaves_the_earlier_one(tmp_path, error):
    path = tmp_path / "out.txt"
    path.write_bytes(BEFORE)

    def broken_off():
        with replacing(path) as file:
            file.write(b"half")
            raise error

    with pytest.raises(error):
        broken_off()
    assert path.read_bytes() == BEFORE
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("size", [0, 1, 1_000, 4_000])
def test_a_command_on_a_full_disk_ends_with_one_line_and_status_2(tmp_path, size):
    path = tmp_path / "pair.cuh"
    path.write_bytes(BEFORE)
    code = (
        "import resource, sys\n"
        f"resource.setrlimit(resource.RLIMIT_FSIZE, ({size}, {size}))\n"
        "from wavesim.cli.command_line import main\n"
        f"sys.exit(main(['gen', 'toy', '--sync', 'row', '--out', {str(path)!r}]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
    assert f"wavesim: {path}: cannot be written (File too large)" in done.stderr
    assert path.read_bytes() == BEFORE


def test_a_link_keeps_pointing_where_it_points(tmp_path):
    (tmp_path / "place").mkdir()
    target, link = tmp_path / "place" / "file", tmp_path / "link"
    link.symlink_to(target)
    for text in ("new", "newer"):
        write_text(link, text)
        assert link.is_symlink()
        assert target.read_text() == text


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o755])
def test_access_rights_stay_and_a_new_file_gets_those_of_the_mask(tmp_path, mode):
    path = tmp_path / "out.txt"
    before = os.umask(0o027)
    try:
        write_text(path, "new")
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    path.chmod(mode)
    write_text(path, "newer")
    assert stat.S_IMODE(path.stat().st_mode) == mode


@pytest.mark.timeout(20)
def test_what_is_no_file_is_refused_at_once(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    for path in (tmp_path / "fifo", tmp_path):
        with pytest.raises(OutputError, match="not a regular file"):
            write_text(path, "new")
    assert stat.S_ISFIFO((tmp_path / "fifo").stat().st_mode)


@pytest.mark.parametrize("name", ["a\0b", "a" * 300, "file/below", "line\nbreak" * 40])
def test_a_path_that_cannot_be_is_one_line(tmp_path, name):
    (tmp_path / "file").touch()
    with pytest.raises(OutputError) as caught:
        write_text(tmp_path / name, "new")
    assert "\n" not in str(caught.value)
    assert "cannot be written" in str(caught.value)


def test_a_full_device_is_an_error_that_names_it():
    with pytest.raises(OutputError, match=r"^/dev/full: cannot be written \(No space left on device\)"):
        write_text("/dev/full", "new")


@pytest.mark.parametrize("path", ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"])
def test_standard_output_is_written_to_whether_it_is_a_pipe_or_a_file(tmp_path, path):
    code = f"from wavesim.safe_io.writing import write_text\nwrite_text({path!r}, 'one\\n')\nprint('two')"
    piped = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert piped.stdout == "one\ntwo\n"
    out = tmp_path / "out.txt"
    with out.open("wb") as file:
        subprocess.run([sys.executable, "-c", code], stdout=file, check=True)
    assert out.read_text() == "one\ntwo\n"


def test_a_line_that_does_not_fit_leaves_the_lines_before_it(tmp_path, monkeypatch):
    path, write = tmp_path / "lines.jsonl", os.write
    append_line(path, "first")

    def full(number, data):
        if len(data) > 5:
            return write(number, bytes(data)[:5])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full)
        with pytest.raises(OutputError, match=r"lines.jsonl: cannot be written"):
            append_line(path, "second")
    append_line(path, "third")
    assert path.read_text() == "first\nthird\n"


def test_no_output_takes_the_place_of_an_input_also_of_one_that_an_input_names(tmp_path, capsys):
    device = tmp_path / "dev.toml"
    shutil.copy(CATALOGUE / "toy.toml", device)
    pair = tmp_path / "pair.toml"
    example = (Path(__file__).parents[3] / "docs" / "pair.toml").read_text()
    pair.write_text(re.sub(r"(?m)^device = .*$", f'device = "{device}"', example))
    before = device.read_bytes()
    (tmp_path / "link").symlink_to(device)
    for words in (
        ["simulate", "toy", "--device", str(device), "--html", str(device)],
        ["simulate", "toy", "--device", str(device), "--out", str(tmp_path / "link")],
        ["compare", "toy", "--device", str(device), "--perfetto", str(device)],
        ["gen", "toy", "--device", str(device), "--out", str(device)],
        ["predict", str(pair), "--html", str(device)],
        ["gen", "--file", str(pair), "--sync", "row", "--out", str(device)],
        ["tune", "toy", "--device", str(device), "--results", str(device)],
    ):
        try:
            status = main(words)
        except SystemExit as end:
            status = end.code
        assert status == 2, words
        assert capsys.readouterr().err.splitlines()[-1].startswith("wavesim"), words
        assert device.read_bytes() == before, words


def test_a_strangers_link_in_a_folder_that_all_may_write_is_not_followed(tmp_path):
    if os.geteuid() != 0:
        pytest.skip("only root makes a link that is another user's")
    (shared := tmp_path / "shared").mkdir()
    shared.chmod(0o1777)
    (victim := tmp_path / "victim").write_text("kept")
    (shared / "report.html").symlink_to(victim)
    os.lchown(shared / "report.html", 4711, 4711)
    for write in (write_text, append_line, lambda path, _: require_writable(path)):
        with pytest.raises(OutputError, match=r"^\S+: \S+ is another user's link in a folder"):
            write(shared / "report.html", "new")
    assert victim.read_text() == "kept"
    os.lchown(shared / "report.html", os.geteuid(), os.getegid())
    write_text(shared / "report.html", "new")
    assert victim.read_text() == "new"


def test_links_that_lead_in_a_circle_are_refused_in_one_line(tmp_path: Path):
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(OutputError, match="links lead in a circle"):
        open_appending(tmp_path / "loop")
    with pytest.raises(OutputError, match="symbolic links"):
        write_text(tmp_path / "loop", "text")


def test_no_output_replaces_what_a_compiler_may_include(tmp_path: Path):
    include, sources = tmp_path / "include", tmp_path / "src"
    include.mkdir()
    sources.mkdir()
    (include / "atomic").write_text("header")
    (sources / "tile.cuh").write_text("header")
    with inputs_kept():
        keep_folder(include)
        keep_folder(sources, frozenset({".cuh"}))
        for header in (include / "atomic", sources / "tile.cuh"):
            with pytest.raises(OutputError, match="may include it"):
                write_text(header, "report")
            assert header.read_text() == "header"
        write_text(sources / "lint.sarif", "report")
        write_text(sources / "lint.sarif", "report again")
    write_text(include / "atomic", "another program's")
