"""Solutions to notebook 20."""

ANSWERS = {
    # Every second thread of 256, or the first 128.
    "20.1": (8, 4),
    # Four banks with eight words each; 33 and 32 have no common factor.
    "20.2": (8, 1),
    # Lanes 2 × 4 words apart, all 32 of them still at work.
    "20.3": (8, 4),
    # Halves: thread t adds what is 128, 64, ..., 1 further on.
    "20.4": lambda thread, step: (thread, thread + (128 >> step)) if thread < 128 >> step else None,
    # Two words per multiply-add; 4 + 4 words for 4 × 4 of them.
    "20.5": (32, 8),
}
