"""Crossover: from how many rows on which way of synchronising pays, and the dispatch table that follows."""
