"""What the benchmark measures, a module per question: products, pairs, copies, recording."""
