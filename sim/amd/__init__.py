"""Simulated AMD devices."""
