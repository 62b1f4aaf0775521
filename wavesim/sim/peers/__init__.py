"""GPUs of one host that compute together: what crosses the link, when, and what hides behind the products."""
