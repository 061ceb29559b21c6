"""Lazy graphs to machine code: schedule, lower, tile, compile. Knows no vendor."""
