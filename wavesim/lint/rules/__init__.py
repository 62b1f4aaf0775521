"""The rules that synchronisation code is held to: what breaks each, and what mends it."""

import tomllib
from pathlib import Path

from wavesim.lint.finding import Rule

RULES = {
    name: Rule(name, **texts)
    for name, texts in tomllib.loads(Path(__file__).with_name("rules.toml").read_text("utf-8")).items()
}
