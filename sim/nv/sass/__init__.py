"""The NVIDIA machine code of sm_80 to sm_120: decoding, text and execution."""
