"""Arguments of ioctls as text, and arguments they point to."""

from dataclasses import replace

import pytest
from cffi import FFI

from hcq.ioctl_defs import iowr, kfd, nv_ctrl, nv_escape

ffi = FFI()
ffi.cdef("""
struct part { uint32_t a; uint8_t b; };
struct all {
    uint8_t id[4]; uint8_t version[16]; uint32_t list[3]; struct part parts[2];
    struct part one; int32_t fd; uint64_t pointer; uint32_t size;
};
""")
CALL = iowr(ffi, "CALL", "F", 1, "struct all")


@pytest.fixture
def shown():
    """shown(field=value): the text of that field."""

    def make(**fields):
        ((name, _),) = fields.items()
        return CALL.values(CALL.args(**fields))[name]

    return make


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"id": [1, 0, 255, 0]}, "0x0100ff"),
        ({"id": [0, 0, 0, 0]}, "0x0"),
        ({"version": list(b"580.1") + [0] * 11}, "580.1"),
        ({"list": [16, 0, 0]}, "[0x10]"),
        ({"list": [0, 16, 0]}, "[0x0,0x10]"),
        ({"parts": [{"a": 1, "b": 2}]}, "[{a=0x1,b=0x2}]"),
        ({"one": {"a": 0, "b": 0}}, "{}"),
        ({"fd": -1}, "-0x1"),
    ],
)
def test_arrays_and_structs_have_no_addresses_and_no_blanks(shown, fields, text):
    assert shown(**fields) == text


def test_arguments_that_a_struct_points_to_can_be_read():
    data = ffi.new("uint8_t[]", b"\x01\x02\x03")
    call = replace(CALL, inner=("pointer", "size"))
    args = call.args(pointer=int(ffi.cast("uintptr_t", data)), size=3)
    assert call.inner_bytes(args) == b"\x01\x02\x03"


def test_no_pointer_is_no_further_arguments():
    assert replace(CALL, inner=("pointer", "size")).inner_bytes(CALL.args(size=3)) == b""
    assert CALL.inner_bytes(CALL.args(pointer=1, size=3)) == b""


# Lists that arguments point to


def test_a_list_has_its_address_and_size():
    args = kfd.MAP_MEMORY_TO_GPU.args(device_ids_array_ptr=0x1000, n_devices=3)
    (found,) = kfd.MAP_MEMORY_TO_GPU.found_lists(args)
    assert (found.field, found.host_address, found.size) == ("device_ids_array_ptr", 0x1000, 12)


@pytest.mark.parametrize(("bits", "size"), [(32, 4), (33, 8), (64, 8)])
def test_masks_are_counted_in_bits(bits, size):
    (found,) = kfd.SET_CU_MASK.found_lists(kfd.SET_CU_MASK.args(cu_mask_ptr=8, num_cu_mask=bits))
    assert found.size == size


@pytest.mark.parametrize("fields", [{"n_devices": 3}, {"device_ids_array_ptr": 0x1000}])
def test_no_pointer_or_no_items_is_no_list(fields):
    args = kfd.MAP_MEMORY_TO_GPU.args(**fields)
    assert kfd.MAP_MEMORY_TO_GPU.found_lists(args) == []


def control(command, size):
    inner = nv_ctrl.GET_CLASSLIST.args(numClasses=5, classList=0x2000)
    address = int(nv_ctrl.ffi.cast("uintptr_t", inner))
    args = nv_escape.RM_CONTROL.args(cmd=command, params=address, paramsSize=size)
    return [
        (found.field, found.host_address, found.size)
        for found in nv_escape.RM_CONTROL.found_lists(args)
    ]


def test_further_arguments_point_to_lists_as_well():
    assert control(0x800201, 16) == [("classList", 0x2000, 20)]


@pytest.mark.parametrize(("command", "size"), [(0x999999, 16), (0x800201, 8)])
def test_further_arguments_that_are_not_known_point_to_none(command, size):
    assert control(command, size) == []
