"""Dispatch tables as files that a serving engine can ship: JSON, and a Python module that needs nothing else.

Example: `plan_for(1000)` of the written module gives "pdl+row grouped:4". Its header says what was predicted
for which kernels on which device, from what, and how far such predictions can be trusted.
"""

import json
from datetime import UTC, datetime
from textwrap import wrap
from typing import Any

import wavesim
from wavesim.safe_io.escaping import one_line
from wavesim.tuning.crossover.crossing import Crossover

FORMAT = 1  # of the JSON; a reader refuses another
LONGEST = 1_000  # letters of a text in a header

PYTHON = '''\
# Which plan to run for M rows. Written by wavesim {version} on {date}; do not edit, write it again.
#
{header}

from bisect import bisect_right

M_FROM, M_TO = {m_from}, {m_to}
FIRST = {first}
PLANS = {plans}
GAIN_POINTS = {gains}


def plan_for(m: int) -> str:
    """The plan's word and tile order, such as "pdl+row grouped:4", for m rows from M_FROM to M_TO."""
    if not M_FROM <= m <= M_TO:
        raise ValueError(f"m is {{m}}; this table is of {{M_FROM}} to {{M_TO}} rows")
    return PLANS[bisect_right(FIRST, m) - 1]
'''


def provenance(crossover: Crossover) -> dict[str, Any]:
    """What a table is of, and what it rests on."""
    forecast = crossover.forecast
    return {
        "made_by": f"wavesim {wavesim.__version__}",
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "family": crossover.family,
        "device": crossover.device,
        "m_from": crossover.m_from,
        "m_to": crossover.m_to,
        "is_complete": crossover.is_complete,
        **{key: value for key, value in forecast.as_json().items() if key not in OF_ONE_SIZE},
    }


OF_ONE_SIZE = ("improvement_points", "low", "high", "interval")


def table_json(crossover: Crossover) -> list[dict[str, Any]]:
    """The rows: `plan` is the plan's word, in the tile order `order`."""
    return [
        {
            "m_from": row.m_from,
            "m_to": row.m_to,
            "plan": row.way.word,
            "order": row.way.order,
            "gain_points": round(row.gain_points, 2),
            "low": round(row.low, 2),
            "high": round(row.high, 2),
        }
        for row in crossover.table
    ]


def dispatch_json(crossover: Crossover) -> str:
    """The table with its provenance, as JSON."""
    return (
        json.dumps({"format": FORMAT, **provenance(crossover), "table": table_json(crossover)}, indent=1)
        + "\n"
    )


def dispatch_python(crossover: Crossover) -> str:
    """The table as a Python module with the function `plan_for`. Names in it are comments or literals."""
    said = provenance(crossover)
    lines = [f"{name}: {_text(value)}" for name, value in said.items() if value not in ("", [], ())]
    header = "\n".join(f"# {line}" for text in lines for line in wrap(text, 105, subsequent_indent="    "))
    return PYTHON.format(
        version=wavesim.__version__,
        date=said["date"],
        header=header,
        m_from=crossover.m_from,
        m_to=crossover.m_to,
        first=_tuple(row.m_from for row in crossover.table),
        plans=_tuple(row.way.name for row in crossover.table),
        gains=_tuple(round(row.gain_points, 1) for row in crossover.table),
    )


def _text(value: Any) -> str:
    texts = value if isinstance(value, list) else [str(value)]
    return "; ".join(one_line(str(text), LONGEST) for text in texts)


def _tuple(values: Any) -> str:
    return "(" + "".join(f"{value!r}, " for value in values).rstrip() + ")"
