"""What the GPU benchmark measures, and blind runs."""
