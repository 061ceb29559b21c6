"""HCQ_CAPTURE: what a run leaves in the file."""

import contextlib
import errno
import json
import os
import subprocess
import sys

import pytest

from hcq import amd, capture, host
from hcq.errors import ConfigError, IoctlError
from hcq.ioctl_defs import amdgpu, kfd
from hcq.settings import Context


@pytest.fixture
def recorded(machine, tmp_path):
    """Runs `work(device)` under a capture; the records."""

    def run(work):
        machine()
        path = tmp_path / "run.jsonl"
        with Context(HCQ_CAPTURE=str(path)):
            device = amd.open(0)
            work(device)
            device.close()
        return [json.loads(line) for line in path.read_text().splitlines()]

    return run


@pytest.mark.row("PRO-10")
def test_the_first_record_names_schema_and_tool(recorded):
    first = recorded(lambda device: None)[0]
    assert (first["record"], first["schema"], first["tool"]) == ("capture", "0.2", "hcq")


@pytest.mark.row("PRO-10")
def test_records_are_numbered_and_of_the_known_kinds(recorded):
    records = recorded(lambda device: device.allocate(4096))
    assert [r["seq"] for r in records] == list(range(len(records)))
    assert {r["record"] for r in records} == {"capture", "device", "ioctl", "object"}


@pytest.mark.row("PRO-10")
def test_ioctls_carry_name_arguments_results_and_raw_bytes(recorded):
    records = recorded(lambda device: None)
    call = next(r for r in records if r.get("name") == "KFD_GET_VERSION")
    assert (call["request"], call["ret"], call["errno"]) == ("0x80084b01", 0, 0)
    assert call["out"] == {"major_version": "0x1", "minor_version": "0x11"}
    assert call["raw"] == "0100000011000000"


@pytest.mark.row("PRO-10")
def test_submissions_carry_their_words_pointers_and_doorbell(recorded):
    def work(device):
        device.wait(device.submit(device.queue("copy").fill(device.loader._ring.address, 1, 4)))

    (found,) = [r for r in recorded(work) if r["record"] == "submission"]
    assert (found["queue"], found["kind"], found["arch"]) == ("copy0", "copy", "gfx1100")
    assert found["words"][16] == "8000000b"  # CONST_FILL after wait, cache request, padding
    assert (found["before"], found["after"]) == ("0x0", hex(4 * len(found["words"])))
    assert found["doorbell"] == found["after"]
    assert (found["waits"][0]["value"], found["signals"][0]["value"]) == ("0x0", "0x1")


@pytest.mark.row("PRO-10")
def test_words_are_in_the_file_before_the_doorbell_rings(machine, tmp_path):
    machine()
    path = tmp_path / "run.jsonl"
    with Context(HCQ_CAPTURE=str(path)):
        device = amd.open(0)
        seen = []
        channel = device.channels["compute"]
        doorbell = channel.doorbell

        class Doorbell:
            def write64(self, offset, value):
                seen.append(path.read_text())
                doorbell.write64(offset, value)

        channel.doorbell = Doorbell()
        device.submit(device.queue("compute").barrier())
        device.close()
    assert json.loads(seen[0].splitlines()[-1])["record"] == "submission"


@pytest.mark.row("PRO-10")
def test_a_refusal_is_recorded_and_passed_on(machine, tmp_path):
    machine().refuse("KFD_ACQUIRE_VM", errno.EBUSY)
    path = tmp_path / "run.jsonl"
    with Context(HCQ_CAPTURE=str(path)), pytest.raises(IoctlError):
        amd.open(0)
    last = [json.loads(line) for line in path.read_text().splitlines()]
    call = next(r for r in last if r.get("name") == "KFD_ACQUIRE_VM")
    assert (call["ret"], call["errno"]) == (-1, errno.EBUSY)


@pytest.mark.row("PRO-10")
def test_without_the_setting_nothing_wraps_the_host(machine):
    machine()
    assert capture.wrap(host.current()) is host.current()


@pytest.mark.row("PRO-10")
@pytest.mark.refusal
def test_a_file_that_cannot_be_written_names_the_setting(machine):
    machine()
    with (
        Context(HCQ_CAPTURE="/nowhere/run.jsonl"),
        pytest.raises(ConfigError, match=r"HCQ_CAPTURE=/nowhere/run.jsonl: cannot be written"),
    ):
        amd.open(0)


@pytest.mark.row("PRO-10")
def test_another_file_gets_its_own_recording(machine, tmp_path):
    machine()
    for name in ("one", "two"):
        with Context(HCQ_CAPTURE=str(tmp_path / name)):
            amd.open(0).close()
    first = [(tmp_path / name).read_text().splitlines()[0] for name in ("one", "two")]
    assert [json.loads(line)["record"] for line in first] == ["capture", "capture"]


@pytest.mark.row("PRO-10")
def test_bound_words_are_recorded_with_the_pointer_to_them(recorded):
    def work(device):
        queue = device.bind(device.queue("compute").barrier())
        device.wait(device.submit(queue))

    (found,) = [r for r in recorded(work) if r["record"] == "submission"]
    (inside,) = found["indirect"]
    assert inside["words"][:2] == ["c0004602", "00000407"]
    assert found["words"][15] == "c0023f02"  # INDIRECT_BUFFER
    assert found["words"][16] == f"{int(inside['address'], 16) & 0xFFFFFFFF:08x}"


# What arguments point to


@pytest.fixture
def passed(machine, tmp_path):
    """The record of one call that is passed to a simulated GPU's file."""

    def make(node, call, *chips, **fields):
        machine(*chips)
        path = tmp_path / "run.jsonl"
        with Context(HCQ_CAPTURE=str(path)):
            front = capture.wrap(host.current())
            fd = front.open(node)
            with contextlib.suppress(IoctlError):
                front.ioctl(fd, call, call.args(**fields))
            front.close(fd)
        records = [json.loads(line) for line in path.read_text().splitlines()]
        return next(r for r in records if r["record"] == "ioctl")

    return make


def pointer(memory):
    return int(kfd.ffi.cast("uintptr_t", memory))


@pytest.mark.row("PRO-10")
def test_a_list_that_arguments_point_to_is_recorded_before_and_after(passed):
    room = kfd.ffi.new("struct kfd_process_device_apertures[]", 2)
    call = kfd.GET_PROCESS_APERTURES_NEW
    record = passed(
        "/dev/kfd", call, num_of_nodes=2, kfd_process_device_apertures_ptr=pointer(room)
    )
    found = record["lists"]["kfd_process_device_apertures_ptr"]
    assert (found["item"], found["size"]) == ("struct kfd_process_device_apertures", 112)
    assert found["in"] == "00" * 112
    assert found["out"] == bytes(kfd.ffi.buffer(room)).hex() != found["in"]


@pytest.mark.row("PRO-10")
def test_text_that_a_render_node_answers_with_is_recorded(passed):
    name = kfd.ffi.new("char[]", 32)
    record = passed("/dev/dri/renderD128", amdgpu.VERSION, name=pointer(name), name_len=8)
    assert record["lists"]["name"]["out"] == b"amdgpu\0\0".hex()
    assert list(record["lists"]) == ["name"]


@pytest.mark.row("PRO-10")
def test_a_list_where_no_memory_is_leaves_the_answer_as_it_was(passed):
    record = passed("/dev/kfd", kfd.WAIT_EVENTS, events_ptr=8, num_events=1)
    assert (record["lists"]["events_ptr"]["in"], record["errno"]) == ("", errno.EFAULT)


@pytest.mark.row("PRO-10")
def test_calls_without_lists_have_none(passed):
    assert "lists" not in passed("/dev/kfd", kfd.GET_VERSION)


CHILD = """
import sys, warnings
from hcq import amd, host
from sim.machine import Machine
warnings.simplefilter("error" if sys.argv[1] == "alone" else "default")
host.use(Machine(["gfx1100"]))
amd.open(0).close()
"""


def child(tmp_path, mode, **settings):
    script = tmp_path / "child.py"
    script.write_text(CHILD)
    return subprocess.run(
        [sys.executable, script, mode],
        env={**os.environ, **settings},
        capture_output=True,
        text=True,
        timeout=60,
    )


@pytest.mark.row("PRO-10")
def test_a_second_process_leaves_the_first_ones_recording_alone(machine, tmp_path):
    machine()
    path = tmp_path / "run.jsonl"
    with Context(HCQ_CAPTURE=str(path)):
        device = amd.open(0)
        before = path.read_bytes()
        run = child(tmp_path, "beside", HCQ_CAPTURE=str(path))
        assert run.returncode == 0, run.stderr
        assert path.read_bytes() == before
        device.close()
    assert path.read_bytes().startswith(before)
    (other,) = tmp_path.glob("run.jsonl.*")
    assert f"another process records into it, so this one records into {other}" in run.stderr
    assert json.loads(other.read_text().splitlines()[-1])["record"] == "object"


@pytest.mark.row("PRO-10")
def test_a_recording_of_a_process_that_ended_is_written_anew(tmp_path):
    path = tmp_path / "run.jsonl"
    sizes = []
    for _ in range(2):
        run = child(tmp_path, "alone", HCQ_CAPTURE=str(path))
        assert run.returncode == 0, run.stderr
        sizes.append(len(path.read_text().splitlines()))
    assert sizes[0] == sizes[1] > 10


FULL_DISK = """
import resource, signal, sys
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (6000, 6000))
from hcq import host, nv
from sim.machine import Machine
machine = Machine(["sm_90"])
host.use(machine)
device = nv.open(0)
device.close()
print(machine.open_files, machine.rm_objects)
"""


@pytest.mark.row("PRO-10")
def test_a_full_disk_ends_the_recording_and_not_the_run(tmp_path):
    path = tmp_path / "run.jsonl"
    script = tmp_path / "full.py"
    script.write_text(FULL_DISK)
    run = subprocess.run(
        [sys.executable, script], env={**os.environ, "HCQ_CAPTURE": str(path)},
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert run.stdout == "0 0\n", run.stderr
    assert f"HCQ_CAPTURE={path}: recording ends at record " in run.stderr
    assert path.stat().st_size == 6000
