"""Exit statuses that more than one command ends with."""

BAD_INPUT = 2
INTERRUPTED = 130
