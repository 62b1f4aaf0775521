"""wavesim's runner for NVIDIA GPUs: compiles our CUDA C++, runs pipelines under a plan, records traces.

Picture: the simulator answers "what would this plan do"; `CupyRunner.measure` takes the same pipeline
and the same plan to a GPU and answers with the same kind of `Trace`. Import what you need from
`wavesim_gpu.runner`, `wavesim_gpu.device` and `wavesim_gpu.compiler`; nothing here needs a GPU to import.
"""
