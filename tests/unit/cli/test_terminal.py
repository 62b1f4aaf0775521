"""What commands print: names from files are words, and never move the cursor or forge a line."""

import json

import pytest
from kineto_traces import H100, kernel, write_trace
from sample_results import changed

from wavesim.cli.command_line import main

ATTACK = "\x1b[2Ja\rb\x07\u202ec\nwavesim: forged\x9b31m"
DESCRIPTION = """device = "h200"
[[stages]]
name = {name}
grid = [4, 4]
threads = 128
registers = 64
shared_bytes = 1024
kernel_us = 100.0
[[dependencies]]
consumer = "second"
needs = ["first[:, y]"]
[[stages]]
name = "second"
grid = [4, 4]
threads = 128
registers = 64
shared_bytes = 1024
kernel_us = 100.0
"""


def profile(folder):
    events = [kernel(f"{ATTACK}{place}", 10.0 * place, 9.0, stream=ATTACK) for place in range(4)]
    return write_trace(folder, events, [{**H100, "name": ATTACK, "computeMajor": 99}])


def description(folder):
    path = folder / "pair.toml"
    path.write_text(DESCRIPTION.format(name=json.dumps(ATTACK)), encoding="utf-8")
    return path


def results(folder):
    def attack(document):
        document["device"]["name"] = document["commit"] = document["versions"]["x"] = ATTACK
        document["cases"][0]["verdict"] = {"is_good": False}
        document["cases"][0]["name"] = ATTACK

    return changed(folder, attack)


def printed(capsys, *arguments):
    main([str(argument) for argument in arguments])
    captured = capsys.readouterr()
    return captured.out, captured.err


def assert_harmless(text):
    assert text.replace("\n", "").isprintable()
    assert "\nwavesim: forged" not in text


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize(
    ("command", "file"), [("advise", profile), ("predict", description), ("results", results)]
)
def test_names_of_a_file_are_words_on_the_terminal(command, file, tmp_path, capsys):
    out, err = printed(capsys, command, file(tmp_path))
    assert "forged" in out + err
    assert_harmless(out)
    assert_harmless(err)
    # A slow machine is told how far the simulations are, a line for each.
    assert len([line for line in err.splitlines() if not line.startswith("simulating ")]) <= 2


@pytest.mark.parametrize(
    "arguments",
    [
        ("predict", f"/dev/null/{ATTACK}"),
        ("simulate", "toy", "--sync", ATTACK),
        ("simulate", "toy", f"--{ATTACK}"),
        ("simulate", ATTACK),
        (ATTACK,),
        ("advise", f"/dev/null/{ATTACK}"),
        ("gen", "toy", "--out", f"/dev/null/{ATTACK}"),
    ],
)
def test_an_argument_comes_back_as_one_printable_line(arguments, capsys):
    with pytest.raises(SystemExit) as ended:  # which argparse raises itself
        raise SystemExit(main(list(arguments)))
    assert ended.value.code == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert len(captured.err.splitlines()) == 1
    assert_harmless(captured.err)


def test_json_is_ascii_and_keeps_the_names(tmp_path, capsys):
    out, _ = printed(capsys, "advise", profile(tmp_path), "--json")
    assert out.isascii()
    assert out.replace("\n", "").isprintable()
    assert "forged" in json.dumps(json.loads(out))
