"""Facts about NVIDIA engines: class numbers, methods, records, error codes."""
