"""Calls of kernels: arguments, gradients, batches, operators of torch."""
