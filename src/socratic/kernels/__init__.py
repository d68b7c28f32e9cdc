"""Kernels for processors and CUDA GPUs, each in the place of several steps of PyTorch and with the same result.

Those for processors are in C++ (``cpp``, behind :mod:`~socratic.kernels.processor`), those for GPUs in Triton, which
comes with torch for CUDA (:mod:`~socratic.kernels.programs` and others by that name). The other modules are what
queries call, one for each kind of step: whether there is a kernel to take, and the call of the one for the device.
"""
