"""What a hung process leaves behind: which kernels it launched, and how far its semaphores had come.

Example: `with record_launches("launches.json"): ...` writes every launch down before it is issued, and
`with mirror_semaphores("/dev/shm/semaphores", program): ...` copies counters into a file while kernels run.
`wavesim why-hang` reads both, from another process or after a kill.
"""
