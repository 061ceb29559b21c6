"""Ctrl-C that is held back: in children, and once it had its turn."""

import os
import signal

import pytest

from hcq import interrupt


@pytest.mark.row("HCQ-33")
def test_a_child_forked_where_ctrl_c_is_held_back_has_the_programs_handler():
    handler = signal.getsignal(signal.SIGINT)
    interrupt.enter()
    try:
        assert signal.getsignal(signal.SIGINT) is not handler
        child = os.fork()
        if child == 0:
            is_back = signal.getsignal(signal.SIGINT) is handler
            os._exit(0 if is_back and not interrupt.is_held() else 1)
    finally:
        interrupt.leave()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.row("HCQ-33")
@pytest.mark.refusal
def test_a_ctrl_c_that_came_at_a_point_does_not_come_again():
    interrupt.enter()
    try:
        signal.raise_signal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            interrupt.point()
        interrupt.point()
    finally:
        interrupt.leave()
    assert not interrupt.is_held()
