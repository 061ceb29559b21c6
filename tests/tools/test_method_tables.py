"""hcq-dump's tables of NVIDIA methods, typed from the class headers.

The driver's own tables are another reading of the same headers: where both know a thing,
they have to say the same of it.
"""

import pytest

from hcq.bits import Layout
from hcq.nv.defs import compute, copy, host
from tools.hcq_dump.compute_methods import AMPERE_A, AMPERE_B, BLACKWELL, HOPPER, INLINE_TO_MEMORY
from tools.hcq_dump.copy_methods import AMPERE_COPY, COPY
from tools.hcq_dump.host_methods import HOST, MEMORY_OPERATIONS
from tools.hcq_dump.method_table import parse

ENGINES = {"compute": (compute, HOPPER), "copy": (copy, COPY), "host": (host, HOST)}


def named(table):
    return {method.name.removesuffix("(0)"): offset for offset, method in table.items()}


@pytest.mark.parametrize("engine", ENGINES)
def test_methods_lie_where_the_driver_has_them(engine):
    module, table = ENGINES[engine]
    known = named(table)
    shared = {
        name: value
        for name, value in vars(module).items()
        if name in known and isinstance(value, int)
    }
    assert len(shared) >= {"compute": 40, "copy": 19, "host": 12}[engine]
    assert {name: known[name] for name in shared} == shared


@pytest.mark.parametrize("engine", ENGINES)
def test_fields_lie_where_the_driver_has_them(engine):
    module, table = ENGINES[engine]
    other = {"oldest_supported_version": "OLDEST_SUPPORTED", "current_version": "CURRENT",
             "membar_type": "MEMBAR_TYPE"}  # fmt: skip
    by_name = {method.name: method for method in table.values()}
    by_name |= {method.name: method for method in MEMORY_OPERATIONS["MEMBAR"].values()}
    compared = 0
    for layout in vars(module).values():
        if not isinstance(layout, Layout) or layout.name not in by_name:
            continue
        mine = by_name[layout.name].layout.fields
        for name, span in layout.fields.items():
            found = mine.get(other.get(name, name.upper()))
            if found is not None:
                assert (layout.name, name, found) == (layout.name, name, span)
                compared += 1
    assert compared >= {"compute": 12, "copy": 20, "host": 10}[engine]


@pytest.mark.parametrize("enum", [host.Operation, host.Reduction])
def test_values_have_the_drivers_names(enum):
    field = enum.__name__.upper()
    values = HOST[host.SEM_EXECUTE].values[field].names
    assert {item.value: item.name for item in enum} == values


@pytest.mark.parametrize(
    ("table", "offset", "name"),
    [
        (AMPERE_A, 0x0270, "SET_SCG_CONTROL"),
        (AMPERE_B, 0x0270, "SET_SCG_CONTROL"),
        (HOPPER, 0x07B8, "SET_MONITORED_FENCE_SIGNAL_ADDRESS_BASE_A"),
        (AMPERE_COPY, 0x0300, "LAUNCH_DMA"),
        (AMPERE_B, 0x0158, "SET_REPORT_SEMAPHORE_PAYLOAD_LOWER"),
        (BLACKWELL, 0x0158, "SET_REPORT_SEMAPHORE_PAYLOAD_LOWER"),
        (BLACKWELL, 0x020C, "UPDATE_ALL_COMPUTE_CONTROL"),
        (AMPERE_A, 0x02B4, "SEND_PCAS_A"),
        (AMPERE_B, 0x3FFC, "CALL_MME_DATA(255)"),
        (INLINE_TO_MEMORY, 0x01B4, "LOAD_INLINE_DATA"),
        (COPY, 0x0750, "DST_ORIGIN_Y"),
        (HOST, 0x0084, "CLEAR_FAULTED"),
    ],
)
def test_methods_of_the_headers(table, offset, name):
    assert table[offset].name == name


@pytest.mark.parametrize(
    ("table", "offset"),
    [
        (AMPERE_A, 0x0158),
        (AMPERE_B, 0x07B8),
        (HOPPER, 0x0270),
        (AMPERE_COPY, 0x0500),
        (BLACKWELL, 0x0194),
        (BLACKWELL, 0x029C),
        (INLINE_TO_MEMORY, 0x02B4),
    ],
)
def test_methods_that_a_class_lacks(table, offset):
    assert offset not in table


@pytest.mark.refusal
@pytest.mark.parametrize("text", ["NAME", "NAME 12", "NAME 0100 both"])
def test_a_line_that_is_no_method_is_refused(text):
    with pytest.raises(ValueError, match="no method: 'NAME"):
        parse(text)
