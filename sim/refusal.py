"""How the simulated kernel says no."""


class Refusal(Exception):
    """The kernel answers a call with an errno; `why` to the machine's `refusals`."""

    def __init__(self, number: int, why: str) -> None:
        super().__init__(why)
        self.number = number
        self.why = why
