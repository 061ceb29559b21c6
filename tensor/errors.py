"""Misuse of the front end."""

from hcq.errors import HcqError


class TensorError(HcqError, ValueError):
    """Front-end misuse; names the operation, shapes and dtypes."""
