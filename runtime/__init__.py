"""One way to use any device: registry, buffers, copies, calls. Imports no compiler."""
