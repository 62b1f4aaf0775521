"""Files in and out: recordings and users' descriptions."""
