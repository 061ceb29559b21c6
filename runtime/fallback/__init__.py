"""Backends that are not raw queues. They meet runtime.backend by shape and never import it."""
