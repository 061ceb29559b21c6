"""Facts of AMD GPUs: packets, registers and records, each with its source."""
