"""Labs: each a kernel and what measures it; notebooks and pages show their committed results."""
