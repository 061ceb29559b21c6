"""Simulated GPUs and kernels: what a driver needs to run where there is no device."""
