"""Delay injection: a user's program run with random delays at its waits, posts and stores.

Example: `python -m wavesim_gpu shake pair.py` finds the missing fence that a test passes
99,999 times of 100,000. Start at `shaking.py`; `ptx_delays.py` says what is put into
the code and why a right program stays right.
"""
