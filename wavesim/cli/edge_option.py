"""`--edges`: how each edge of a pipeline is synchronised, where it is otherwise than the rest."""

import argparse

EXAMPLE = "qkv-attention=row,attention-out=grid"


def add_edges_option(parser: argparse.ArgumentParser) -> None:
    """`--edges` for commands that take one plan with semaphores."""
    parser.add_argument(
        "--edges",
        default="",
        metavar="PRODUCER-CONSUMER=POLICY,...",
        help=f"edges with a policy of their own, as in {EXAMPLE}; grid: this edge does not overlap",
    )
