"""TOML and JSON from outside: refused in one line and at once, before the parser works on it."""

import codecs
import time
from pathlib import Path

import pytest

from wavesim.errors import RecordingError
from wavesim.safe_io.documents import MOST_DEPTH, MOST_TOML_BYTES, json_value, read_json, read_toml

N = MOST_TOML_BYTES - 100
AT_ONCE_S = 2.0  # on a busy machine; each takes a few milliseconds
HOSTILE_TOML = {
    "one dotted key of the whole file": "a." * (N // 2) + "a = 1",
    "dotted keys with spaces": "a . " * (N // 4) + "a = 1",
    "quoted dotted keys": "'a'." * (N // 4) + "a = 1",
    "a deep table": "[" + "a." * 40 + "a]",
    "nested lists": "a = " + "[" * 30_000,
    "nested tables": "a = " + "{b = " * 10_000,
    "an integer of 60,000 digits": "a = " + "1" * 60_000,
    "an integer of 400 digits": "a = " + "1" * 400,
    "a hexadecimal integer of 400 digits": "a = 0x" + "f" * 400,
    "a list with an infinity": "a = [1.0, -inf]",
    "no number": "[t]\na = nan",
    "1e400": "a = 1e400",
    "unclosed texts": 'a = """\\' + '"""\\' * (N // 4),
    "quotes": '"' * N,
    "too large": "#" * (MOST_TOML_BYTES + 1),
}
HOSTILE_JSON = {
    "nested lists": "[" * 100_000,
    "nested objects": '{"a":' * 100_000,
    "an integer of 400 digits": "[" + "1" * 400 + "]",
    "an integer of a megabyte": "1" * 10**6,
    "65 bits": str(2**64),
    "no number": '{"a": NaN}',
    "infinity": "[-Infinity]",
    "1e400": "[1e400]",
    "no UTF-8": b"[\xff]",
}


@pytest.mark.parametrize("name", HOSTILE_TOML)
def test_hostile_toml_is_refused_in_one_line_at_once(tmp_path: Path, name: str):
    path = tmp_path / "hostile.toml"
    path.write_text(HOSTILE_TOML[name])
    began = time.process_time()
    with pytest.raises(RecordingError, match=r"hostile\.toml: ") as caught:
        read_toml(path)
    assert time.process_time() - began < AT_ONCE_S
    assert "\n" not in str(caught.value)


def test_toml_as_deep_as_is_allowed_and_dots_in_texts_are_read(tmp_path: Path):
    path = tmp_path / "fine.toml"
    dots = "." * 100
    path.write_text(
        f"# {dots} [[[[\n{'.'.join('a' * MOST_DEPTH)} = 1\nb = {'[' * MOST_DEPTH}1.5{']' * MOST_DEPTH}\n"
        f'c = "{dots}"\nd = \'{dots}\'\ne = """\n{dots} [[[[[[[[[[[[[[[[[[ "" \\" """\nf = [1.5, 2.5]\n'
    )
    toml = read_toml(path)
    assert (toml["c"], toml["d"], toml["f"]) == (dots, dots, [1.5, 2.5])


@pytest.mark.parametrize("name", HOSTILE_JSON)
def test_hostile_json_is_refused_in_one_line_at_once(name: str):
    began = time.process_time()
    with pytest.raises(RecordingError, match=r"^file: not JSON: ") as caught:
        json_value(HOSTILE_JSON[name], "file")
    assert time.process_time() - began < AT_ONCE_S
    assert "\n" not in str(caught.value)


def test_json_is_read_with_its_largest_integers(tmp_path: Path):
    path = tmp_path / "fine.json"
    path.write_text(f'{{"a": [{2**63 - 1}, {-(2**63)}, 1.5, null]}}')
    assert read_json(path, 1000) == {"a": [2**63 - 1, -(2**63), 1.5, None]}


def test_a_byte_order_mark_is_no_part_of_a_document(tmp_path: Path):
    for name, text in (("a.toml", b"a = 1\n"), ("a.json", b'{"a": 1}')):
        (tmp_path / name).write_bytes(codecs.BOM_UTF8 + text)
    assert read_toml(tmp_path / "a.toml") == {"a": 1}
    assert read_json(tmp_path / "a.json", 100) == {"a": 1}
