"""Why kernels hang, or could: who holds which SM slot, who waits for whom, and what would end the wait."""
