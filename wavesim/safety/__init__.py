"""What must hold: invariants of traces, deadlock freedom of plans, residency of waiting blocks."""
