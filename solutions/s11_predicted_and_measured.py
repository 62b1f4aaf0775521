"""Solutions to notebook 11."""

ANSWERS = {
    # Waves and waiting agree to 1 us. The recorded run had a higher clock than the rounds that were timed.
    "11.1": "clock",
    # -2.3 points of time less -4.6 of cycles.
    "11.2": 2.3,
}
