"""A mixture-of-experts layer: routing, grouped GEMMs with run-time row counts, the weighted sum."""
