"""Passes of whole models: the time of a layer and of all of them, where it goes, and what overlap changes."""
