"""Which known device somebody means who wrote another name.

Example: "a100" is a part of a100-40gb and of a100-80gb, "NVIDIA H100 80GB HBM3" has a word that is a
device's, and "h20" is most like h200.
"""

import re
from difflib import get_close_matches

from wavesim.errors import DescriptionError

SHORTEST_WORD = 3  # letters by which a device is suggested


def unknown_device(name: str, known: list[str]) -> DescriptionError:
    """The error that says which devices are known, and first those that may be meant."""
    near = nearest_devices(name, known)
    meant = f"did you mean {' or '.join(near)}? " if near else ""
    known_text = f"known devices: {', '.join(known)}, or a device file, such as my.toml"
    return DescriptionError(f"unknown device {name!r}; {meant}{known_text}")


def nearest_devices(name: str, known: list[str]) -> list[str]:
    """The known names that this name is a part of, else those that begin with one of its words, else the most
    alike.
    """
    words = [word for word in re.split("[^a-z0-9]+", name.lower()) if len(word) >= SHORTEST_WORD]
    whole = "".join(words)
    return (
        [one for one in known if whole and whole in one.replace("-", "")]
        or [one for one in known if any(one.startswith(word) for word in words)]
        or get_close_matches(name.lower(), known, 1)
    )
