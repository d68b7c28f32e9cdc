"""Kernels for CUDA GPUs, each in the place of several steps of PyTorch and with the same result.

They are in Triton, which comes with torch for CUDA (:mod:`~socratic.kernels.programs`). What the other modules hold is
ordinary Python: whether a kernel is taken (:func:`~socratic.kernels.choice.takes_kernel`), and how it is started.
"""
