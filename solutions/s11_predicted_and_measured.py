"""Solutions to notebook 11."""

ANSWERS = {
    # -2.3 points of time less -4.6 of cycles.
    "11.1": 2.3,
    # The schedule agrees to some 2 us; what is left is tiles a little longer or shorter.
    "11.2": "slower tiles",
}
