"""The RDNA 3 instruction set: decoding, text, semantics, interpretation and translation."""
