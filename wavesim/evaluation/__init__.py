"""How good the predictions are: datasets, split, blind runs, scores, thresholds and their pages."""
