"""Simulated NVIDIA GPUs: the kernel driver's side, the engines and the machine code they run."""
