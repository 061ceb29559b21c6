"""Values that instruction semantics are written on, for every simulated instruction set."""
