import re

import pytest

from hcq.errors import ConfigError
from runtime.target import EXAMPLES, Target, parse_targets


@pytest.mark.row("REG-07")
@pytest.mark.parametrize(
    ("text", "targets"),
    [
        ("AMD", [Target("AMD")]),
        ("amd", [Target("AMD")]),
        ("AMD:0", [Target("AMD", 0)]),
        ("AMD:1", [Target("AMD", 1)]),
        ("kfd+amd", [Target("AMD", interface="KFD")]),
        ("KFD+AMD:2", [Target("AMD", 2, "KFD")]),
        ("KFD:1+AMD", [Target("AMD", 1, "KFD")]),
        ("KFD:1+AMD:1", [Target("AMD", 1, "KFD")]),
        ("1+AMD", [Target("AMD", 1)]),
        ("AMD:LLVM", [Target("AMD", renderer="LLVM")]),
        ("AMD:llvm:gfx1100", [Target("AMD", renderer="LLVM", arch="gfx1100")]),
        ("AMD:3:LLVM:gfx1100", [Target("AMD", 3, "", "LLVM", "gfx1100")]),
        ("CPU::LLVM", [Target("CPU", renderer="LLVM")]),
        ("CPU:LLVM:x86-64-v3", [Target("CPU", renderer="LLVM", arch="x86-64-v3")]),
        ("CPU:LLVM:x86-64,+avx", [Target("CPU", renderer="LLVM", arch="x86-64,+avx")]),
        ("AMD;CPU", [Target("AMD"), Target("CPU")]),
        ("AMD:1 ; CPU:LLVM", [Target("AMD", 1), Target("CPU", renderer="LLVM")]),
    ],
)
def test_device_setting_is_read(text, targets):
    assert list(parse_targets(text)) == targets


@pytest.mark.row("REG-07")
@pytest.mark.refusal
@pytest.mark.parametrize(
    ("text", "bad"),
    [
        ("1AMD", "1AMD"),
        (":1", ":1"),
        ("AMD:", "AMD:"),
        ("AMD;;CPU", "nothing"),
        ("+AMD", r"\+"),
        ("KFD:x+AMD", r"x\+AMD"),
        ("KFD:1+AMD:2", r"1\+ and :2"),
        ("AMD:1:LLVM:gfx1100:more", "more"),
        ("AMD:LL VM", "LL VM"),
        ("NV:", "NV:"),
        ("NV,CPU", "NV,CPU"),
        ("AMD:-1", "-1"),
        ("AMD:LLVM:gfx 1100", "gfx 1100"),
    ],
)
def test_malformed_device_setting_names_the_bad_part_and_the_grammar(text, bad):
    with pytest.raises(ConfigError, match=f"is malformed at '.*{bad}") as caught:
        parse_targets(text)
    assert "[IFACE+]NAME[:index][:RENDERER[:ARCH]]" in str(caught.value)


def test_the_examples_of_the_grammar_are_read():
    examples = [text.strip("'") for text in re.findall(r"DEVICE=('.*?'|[^', ]+)", EXAMPLES)]
    assert [len(parse_targets(text)) for text in examples] == [1, 1, 2, 1]
    assert parse_targets(examples[-1]) == (Target("NV", 0, "NVK", "PTX"),)


def test_index_zero_is_left_out_of_the_device_name():
    assert [t.device for t in parse_targets("AMD:0;AMD:1")] == ["AMD", "AMD:1"]
