"""Predictions: a plan against stream sync, with its interval and where the figures come from."""
