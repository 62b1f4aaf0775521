"""Kinds of work: one folder or file for each, with all that wavesim knows of it.

What its tiles read and write, its fields in a description, how long its tiles take. `wavesim.model.kernel`
has the questions that a kind of `Work` answers; nothing outside this room asks for a class.
"""
