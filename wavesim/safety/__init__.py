"""What must hold of a plan: no deadlock on a device, no unordered use of a buffer; and why launches hang."""
