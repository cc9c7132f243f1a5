"""What monocomp costs and how fast its kernels are, beside what torch offers.

`python -m benchmarks.run` measures what this machine can; each module here makes one table and
also runs by itself, as `python -m benchmarks.gpu_forward`. Those on the GPU take `--only WORD`
and `--seconds N`, and `--rehearse` runs them at tiny sizes on the CPU.
"""
