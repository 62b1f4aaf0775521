"""Changes to an input of the corpus: to its bytes, and to a field of what is JSON."""

import copy
import gzip
import json
import random
from typing import Any

HOSTILE_TEXTS = (
    *("", "x" * 5_000, "\u0000", "\x1b[31mred\x1b[0m", "\U0001f600", "a\nb", "a\r\u2028b", "²", "١٢"),
    *("<img src=x onerror=alert(1)>", "<!--<script>", "</script><script>alert(1)</script>", "*/ }", "\\"),
    *("__import__('os')", "${x}", "%s%n", "../../x", "elementwise<" + "a" * 4_000, "cutlass" * 500),
)
HOSTILE_NUMBERS = (
    *(
        0,
        -1,
        1,
        2,
        3,
        7,
        64,
        65_536,
        2**31 - 1,
        2**31,
        2**53,
        2**62,
        2**63 - 1,
        2**63,
        2**64,
        -(2**63),
        10**30,
    ),
    *(0.5, -0.0, 1e308, -1e308, 1e-308, 5e-324, 1e17, 2e15, 1.5),
)
HOSTILE: tuple[Any, ...] = (
    *(None, True, False, [], {}, [[]], {"a": {"b": [1]}}, *HOSTILE_TEXTS, *HOSTILE_NUMBERS),
    *(
        [0, 0, 0],
        [1, 1, 1],
        [2**31 - 1, 65_535, 65_535],
        [2**40, 2**40, 2**40],
        [1, 1],
        ["1", 1, 1],
        [-1, 1, 1],
    ),
)
RAW_NUMBERS = (
    *("1e999999999", "-1e999999999", "1E-999999999", "1e-400", "1e-320", "9" * 400, "9" * 5_000),
    *("0." + "1" * 5_000, "NaN", "-Infinity", "1e", "--1", "01", "1_000", "0x10"),
)
MARK = '"\ue000"'  # stands where a raw number goes


def with_bytes_changed(chance: random.Random, data: bytes) -> bytes:
    """Bytes flipped, cut off, repeated or moved."""
    changed = bytearray(data)
    for _ in range(chance.choice([1, 1, 2, 5, 20])):
        if not changed:
            break
        place, length = chance.randrange(len(changed)), chance.choice([1, 1, 2, 4, 16, 200])
        match chance.randrange(5):
            case 0:
                changed[place] ^= 1 << chance.randrange(8)
            case 1:
                changed[place] = chance.choice([0, 1, 127, 128, 255, chance.randrange(256)])
            case 2:
                del changed[place : place + length]
            case 3:
                changed[place:place] = changed[place : place + length] * chance.choice([1, 2, 30])
            case _:
                other = chance.randrange(len(changed))
                changed[place : place + length] = changed[other : other + length]
    cut = chance.random() < 0.1
    return bytes(changed[: chance.randrange(len(changed) + 1)] if cut else changed)


def with_values_changed(chance: random.Random, value: Any, hostile: tuple[Any, ...] = HOSTILE) -> Any:
    """A copy of a JSON value with some of its fields changed, lost, doubled or reordered."""
    changed = copy.deepcopy(value)
    for _ in range(chance.choice([1, 1, 2, 4, 12])):
        _change_one(chance, changed, hostile)
    return changed


def _change_one(chance: random.Random, value: Any, hostile: tuple[Any, ...]) -> None:
    while isinstance(value, dict | list) and value:
        key = chance.choice(list(value)) if isinstance(value, dict) else chance.randrange(len(value))
        if isinstance(value[key], dict | list) and value[key] and chance.random() > 0.12:
            value = value[key]
            continue
        match chance.randrange(10):
            case 0:
                del value[key]
            case 1 if isinstance(value, list):
                value.extend(copy.deepcopy(value[key : key + 1] * chance.choice([1, 2, 50])))
            case 1 if isinstance(value, dict):
                value[chance.choice(HOSTILE_TEXTS)] = value[key]
            case 2 if isinstance(value, list):
                chance.shuffle(value)
            case _:
                value[key] = copy.deepcopy(chance.choice(hostile))
        return


def with_raw_numbers(chance: random.Random, value: Any) -> bytes:
    """JSON text in which some numbers are such as no float or integer holds."""
    changed = with_values_changed(chance, value, (MARK.strip('"'),))
    text = json.dumps(changed, ensure_ascii=False)
    while MARK in text:
        text = text.replace(MARK, chance.choice(RAW_NUMBERS), 1)
    return text.encode("utf-8", errors="replace")


def nested(chance: random.Random) -> bytes:
    """JSON a hundred or a million deep, somewhere in a trace."""
    depth = chance.choice([50, 99, 101, 1_000, 100_000, 2_000_000])
    opening, closing = chance.choice([(b"[", b"]"), (b'{"a":', b"}")])
    inner = opening * depth + b"1" + (closing * depth if chance.random() < 0.7 else b"")
    around = [b'{"traceEvents":[%s]}', b'{"deviceProperties":%s}', b'{"x":%s,"traceEvents":[]}', b"%s"]
    return chance.choice(around) % inner


def bomb(chance: random.Random) -> bytes:
    """A small gzip file that unpacks to far more than a trace of its size could."""
    units = [b" ", b"0", b"[", b'"', b"\\", b"1,", b"{},", b'{"ph":"X","cat":"kernel"},', b'"a",']
    leads = [b'{"traceEvents":[', b'{"traceEvents":[{"name":"', b'{"a":"', b"", b'{"deviceProperties":[']
    size, unit = chance.choice([1 << 20, 32 << 20, 200 << 20]), chance.choice(units)
    return gzip.compress(chance.choice(leads) + unit * (size // len(unit)), compresslevel=1, mtime=0)


HOSTILE_TOML = (
    *(
        "-1",
        "0",
        "1",
        "65536",
        "2147483648",
        "9" * 30,
        "9" * 400,
        "0x7fffffffffffffff",
        "1e400",
        "-1e400",
        "nan",
    ),
    *("inf", "1e-320", "true", '""', '"²"', "[]", "{}", "[" * 60, "[" * 5_000, "1979-05-27", '"\\u001b[31m"'),
    *('"<img src=x onerror=alert(1)>"', '"*/ }"', '"' + "x" * 5_000 + '"', "'''", "1_0", "+1", "01"),
)


def with_lines_changed(chance: random.Random, data: bytes, values: tuple[str, ...] = ()) -> bytes:
    """TOML with values, lines and keys replaced, lost, doubled or moved."""
    lines = data.decode(errors="replace").splitlines()
    for _ in range(chance.choice([1, 1, 1, 2, 4])):
        if not lines:
            break
        place = chance.randrange(len(lines))
        key, is_pair, _value = lines[place].partition("=")
        match chance.randrange(12):
            case 0:
                del lines[place]
            case 1:
                lines.insert(chance.randrange(len(lines) + 1), lines[place])
            case 2:
                lines[place] = f"{'a.' * chance.choice([1, 1, 1, 30, 5_000])}{lines[place].strip()}"
            case 3:
                lines.insert(place, chance.choice(["[[stages]]", "[x]", "unknown = 1", "[" * 50, '"" = 1']))
            case _ if is_pair:
                choices = values if values and chance.random() < 0.6 else HOSTILE_TOML
                lines[place] = f"{key}= {chance.choice(choices)}"
            case _:
                lines[place] = chance.choice(lines)
    return "\n".join(lines).encode(errors="replace")
