"""Options of both command lines: plain numbers, each once, and one line for what is wrong."""

from pathlib import Path

import pytest

from wavesim.safe_io.options import OneLineParser, integer, number


def parser() -> OneLineParser:
    parser_made = OneLineParser(prog="prog")
    parser_made.add_argument("--count", type=integer)
    parser_made.add_argument("--share", type=number)
    parser_made.add_argument("--flag", action="store_true")
    commands = parser_made.add_subparsers()
    commands.add_parser("run").add_argument("--name")
    return parser_made


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--count", "1_0"], "argument --count: it is '1_0'; it must be an integer from"),
        (["--count", "²"], "argument --count: it is '²'; it must be an integer from"),
        (["--count", "9" * 400], "argument --count: it is '99"),
        (["--share", "nan"], "argument --share: it is 'nan'; it must be a number from 0 to"),
        (["--share", "1e400"], "argument --share: it is '1e400'; it must be a number from 0 to"),
        (["--count", "1", "--count", "2"], "argument --count: is given twice; give it once"),
        (["run", "--name", "a", "--name", "b"], "argument --name: is given twice; give it once"),
        (["--" + "x" * 10_000], "unrecognized arguments: --xxx"),
        (["--count"], "argument --count: expected one argument"),
    ],
)
def test_a_bad_option_is_one_short_line_and_status_two(
    capsys: pytest.CaptureFixture[str], words: list[str], message: str
):
    with pytest.raises(SystemExit) as ended:
        parser().parse_args(words)
    said = capsys.readouterr().err
    assert ended.value.code == 2
    assert message in said
    assert said.endswith(" --help\n")
    assert said.count("\n") == 1
    assert len(said) < 700


def test_good_options_are_read():
    options = parser().parse_args(["--count", "-12", "--share", "0.5", "--flag", "run", "--name", "a"])
    assert (options.count, options.share, options.flag, options.name) == (-12, 0.5, True, "a")


def file_parser() -> OneLineParser:
    parser_made = OneLineParser(prog="prog")
    command = parser_made.add_subparsers().add_parser("run")
    command.add_argument("profile", type=Path, nargs="?")
    command.add_argument("--page", type=Path)
    command.add_argument("--pair", type=Path)
    return parser_made


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder, with a file, other names of it, and a link to what is not there yet."""
    monkeypatch.chdir(tmp_path)
    Path("in").write_text("a profile")
    Path("soft").symlink_to("in")
    Path("hard").hardlink_to("in")
    Path("new-soft").symlink_to("new")
    return tmp_path


@pytest.mark.parametrize(
    "words",
    [
        ["in", "--pair", "in"],
        ["in", "--page", "./in"],
        ["in", "--pair", "soft"],
        ["soft", "--page", "in"],
        ["in", "--pair", "hard"],
        ["in", "--page", "new", "--pair", "new"],
        ["--page", "new", "--pair", "new-soft"],
    ],
)
def test_one_file_for_two_options_is_refused_before_it_is_written(
    folder: Path, capsys: pytest.CaptureFixture[str], words: list[str]
):
    with pytest.raises(SystemExit) as ended:
        file_parser().parse_args(["run", *words])
    said = capsys.readouterr().err
    assert ended.value.code == 2
    assert "; give each a file of its own" in said
    assert said.count("\n") == 1


def test_different_files_and_one_device_for_two_options_are_taken(folder: Path):
    file_parser().parse_args(["run", "in", "--page", "new", "--pair", "other"])
    file_parser().parse_args(["run", "in", "--page", "/dev/null", "--pair", "/dev/null"])
