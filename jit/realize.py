"""Graph to memory: schedule and run."""

from collections.abc import Sequence

from jit.graph import Node
from jit.schedule import schedule


def realize(outputs: Sequence[Node], assigns: Sequence[tuple[Node, Node]] = ()) -> None:
    """Give every output its value and carry out the assigns, as `schedule` says.

    Outputs already realised cost nothing.
    """
    calls = schedule(outputs, assigns)
    if calls:
        from runtime.execute import run_linear

        run_linear(calls)
