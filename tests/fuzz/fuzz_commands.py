"""Command lines, a list of words in JSON, in an empty folder.

Of the commands those that read and search; none that writes into the repository or drives a browser. A line
that is right to run may take long, so sizes are small ones, or too large ones that have to be refused.
"""

import json
import random
from pathlib import Path

from harness import NonsenseError, Target
from judging import judged_command

COMMANDS = ("simulate", "compare", "gen", "tune", "devices", "predict", "advise")
WORKLOADS = ("toy", "gpt3-mlp", "llama-mlp", "attention", "resnet-18", "vgg-19", "nothing", "²", "")
OPTIONS = (
    *(
        "--sync",
        "--schedule",
        "--launch",
        "--split-k",
        "--no-wait-kernel",
        "--head-start",
        "--tokens",
        "--tile",
    ),
    *(
        "--order",
        "--device",
        "--json",
        "--runtime-sizes",
        "--tiles",
        "--top",
        "--accept",
        "--depend",
        "--pair",
    ),
    *("--measure", "--no-such-option", "--help", "--version", "--", "-"),
)
VALUES = (
    *(
        "0",
        "-1",
        "1",
        "2",
        "256",
        "²",
        "1_0",
        "0x10",
        "1e3",
        "nan",
        "9" * 20,
        "9" * 400,
        "2147483648",
        "65537",
    ),
    *("row", "tile", "stream", "row,tile", "row,row", ",", "block:6x1", "block:0x1", "block:99999999x1"),
    *("pdl+row", "persistent", "stream-k", "grouped:4", "grouped:0", "reversed:" * 300, "reversed:row"),
    *(
        "128x256",
        "0x0",
        "1x1",
        "99999x99999",
        "128x",
        "x" * 5_000,
        "toy",
        "h200",
        "h100",
        "never",
        "promised",
    ),
    *("\x1b[31m", "a\nb", "\udc80", "<img src=x>", "*/", "", " ", "%s", "None", "[]", "a" * 100_000),
)


def made(chance: random.Random, data: bytes) -> bytes:
    """A line with words replaced, lost, doubled or added."""
    try:
        words = [str(word) for word in json.loads(data)]
    except ValueError:
        words = []
    if chance.random() < 0.3:
        words = [chance.choice(COMMANDS), chance.choice(WORKLOADS), "--device", "toy"]
    for _ in range(chance.choice([1, 1, 2, 4])):
        place = chance.randrange(len(words) + 1)
        match chance.randrange(6):
            case 0 if words:
                del words[min(place, len(words) - 1)]
            case 1 if words:
                words.insert(place, chance.choice(words))
            case 2:
                words[place:place] = [chance.choice(OPTIONS)]
            case 3 if len(words) > 1:
                words[max(1, min(place, len(words) - 1))] = chance.choice(VALUES)
            case _:
                words[max(place, 1) : place] = [chance.choice(OPTIONS), chance.choice(VALUES)]
    return json.dumps(words).encode()


def call(path: Path) -> bool:
    """Runs the line. Returns whether it was accepted."""
    try:
        words = [str(word) for word in json.loads(path.read_bytes())]
    except ValueError:
        return False
    if not words or words[0] not in COMMANDS:
        words = ["devices", *words[:3]]
    before = sorted(Path().iterdir())
    is_accepted = judged_command(words) is not None
    if not is_accepted and sorted(Path().iterdir()) != before:
        raise NonsenseError("a line that was refused made a file")
    return is_accepted


TARGET = Target(made, call)
