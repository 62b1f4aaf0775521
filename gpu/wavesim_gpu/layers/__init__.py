"""Layers that a program calls on its own arrays: described, chosen, launched."""
