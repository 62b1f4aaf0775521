"""The simulated machine on SimPy: SMs and their dispatcher here, streams and copy engines in `streams/`, GPUs
and the links between them in `peers/`. Begin in `simulation.py`; a block's life is in `block.py`.
"""
