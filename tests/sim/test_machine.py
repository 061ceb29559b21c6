import errno
import os

import pytest

from hcq import host
from hcq.errors import ConfigError, IoctlError
from hcq.ioctl_defs import kfd

NODES = "/sys/devices/virtual/kfd/kfd/topology/nodes"


def lines(data):
    return dict(line.split() for line in data.decode().splitlines())


@pytest.mark.row("SIM-01")
def test_a_machine_takes_the_place_of_this_one(machine):
    m = machine()
    assert host.current() is m


def test_two_gpus_have_two_nodes_and_two_numbers(machine):
    m = machine(count=2)
    assert m.list("/dev/dri") == ["renderD128", "renderD129"]
    assert m.list(NODES) == ["0", "1", "2"]
    assert m.read(f"{NODES}/0/gpu_id") == b"0\n"
    assert m.read(f"{NODES}/1/gpu_id") != m.read(f"{NODES}/2/gpu_id")


@pytest.mark.row("SIM-04")
def test_a_node_reads_like_a_7900_xtx(machine):
    node = lines(machine().read(f"{NODES}/1/properties"))
    wanted = {"simd_count": "192", "simd_per_cu": "2", "gfx_target_version": "110000",
              "device_id": "29772", "drm_render_minor": "128", "num_xcc": "1",
              "array_count": "12", "num_sdma_engines": "2"}  # fmt: skip
    assert wanted.items() <= node.items()
    assert "cwsr_size" not in node


def test_recent_kernels_name_the_save_area(machine):
    node = lines(machine(save_sizes=True).read(f"{NODES}/1/properties"))
    assert (node["cwsr_size"], node["ctl_stack_size"]) == (str(0x2BEA000), str(0xA000))


def test_the_class_folder_is_another_name_of_the_topology(machine):
    m = machine()
    assert m.read("/sys/class/kfd/kfd/topology/nodes/1/gpu_id") == m.read(f"{NODES}/1/gpu_id")


@pytest.mark.parametrize(("large", "heap"), [(True, "1"), (False, "2")])
def test_the_memory_bank_tells_the_bar(machine, large, heap):
    bank = lines(machine(large_bar=large, vram=1 << 30).read(f"{NODES}/1/mem_banks/0/properties"))
    assert (bank["heap_type"], bank["size_in_bytes"]) == (heap, str(1 << 30))


@pytest.mark.refusal
@pytest.mark.parametrize("name", ["gpu_id", "name", "properties"])
def test_a_masked_node_cannot_be_read(machine, name):
    m = machine(count=2, masked=(0,))
    with pytest.raises(PermissionError) as refusal:
        m.read(f"{NODES}/1/{name}")
    assert refusal.value.errno == errno.EPERM
    assert m.read(f"{NODES}/2/gpu_id")


def test_ip_versions_can_be_read(machine):
    folder = "/sys/class/drm/renderD128/device/ip_discovery/die/0"
    m = machine()
    assert m.read(f"{folder}/11/0/major") == b"11\n"
    assert m.read(f"{folder}/42/0/major") == b"6\n"


def test_other_files_are_the_real_machines(machine, tmp_path):
    (tmp_path / "file").write_text("here")
    m = machine()
    assert m.read(str(tmp_path / "file")) == b"here"
    assert m.list(str(tmp_path)) == ["file"]
    assert m.exists("/proc/self")


@pytest.mark.refusal
@pytest.mark.parametrize("path", ["/dev/dri/renderD129", "/sys/class/kfd/nothing"])
def test_a_simulated_path_that_is_not_there_is_enoent(machine, path):
    m = machine()
    assert not m.exists(path)
    with pytest.raises(FileNotFoundError):
        m.open(path)
    with pytest.raises(FileNotFoundError):
        m.read(path)


def test_device_nodes_belong_to_the_render_group(machine):
    assert machine().group("/dev/kfd") == "render"


def test_descriptors_are_real_and_closed(machine):
    m = machine()
    fd = m.open("/dev/kfd")
    assert os.fstat(fd)
    m.close(fd)
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(fd)
    assert m.open_files == 0


@pytest.mark.refusal
def test_a_refused_open_leaves_no_descriptor(machine):
    m = machine(gpu="sm_90")
    m.lose_gpu(0)
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        with pytest.raises(OSError, match="off the bus"):
            m.open("/dev/nvidia0")
    assert (m.open_files, len(os.listdir("/proc/self/fd"))) == (0, before)


def test_shutting_down_closes_what_was_left_open(machine):
    m = machine()
    fd = m.open("/dev/kfd")
    m.shut_down()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(fd)


@pytest.mark.refusal
@pytest.mark.parametrize("version", [(2, 0), (1, 99)])
def test_an_interface_that_is_not_simulated_is_refused(machine, version):
    with pytest.raises(ConfigError, match="known are"):
        machine(kfd=version)


@pytest.mark.refusal
def test_an_unknown_chip_is_refused_with_the_list(machine):
    with pytest.raises(ConfigError, match=r"no simulated chip 'gfx1101'.*gfx1100"):
        machine(gpu="gfx1101")


# Errors that a test wants


def version(m, fd):
    m.ioctl(fd, kfd.GET_VERSION, kfd.GET_VERSION.args())


@pytest.mark.refusal
def test_the_nth_call_fails_once(machine):
    m = machine()
    m.fail(3, errno.EMFILE)
    fd = m.open("/dev/kfd")
    version(m, fd)
    with pytest.raises(IoctlError, match="EMFILE"):
        version(m, fd)
    version(m, fd)


@pytest.mark.refusal
def test_only_calls_of_a_kind_are_counted(machine):
    m = machine()
    m.fail(1, errno.EIO, kind="ioctl")
    fd = m.open("/dev/kfd")
    with pytest.raises(IoctlError, match="EIO"):
        version(m, fd)


@pytest.mark.refusal
def test_a_request_is_refused_by_name(machine):
    m = machine()
    m.refuse("KFD_GET_VERSION", errno.EPERM, times=1)
    fd = m.open("/dev/kfd")
    with pytest.raises(IoctlError, match="KFD_GET_VERSION: Operation not permitted"):
        version(m, fd)
    version(m, fd)


@pytest.mark.refusal
def test_a_node_is_denied(machine):
    m = machine()
    m.deny("/dev/kfd")
    with pytest.raises(PermissionError):
        m.open("/dev/kfd")


@pytest.mark.parametrize("number", [errno.EINTR, errno.EAGAIN])
def test_an_interrupted_call_is_made_again(machine, number):
    m = machine()
    fd = m.open("/dev/kfd")
    m.refuse("KFD_GET_VERSION", number, times=2)
    version(m, fd)
    assert m.injection.struck == 2


@pytest.mark.row("SIM-10")
@pytest.mark.refusal
def test_a_call_that_stays_busy_gives_up_without_costing_real_time(machine):
    m = machine(seed=1)
    fd = m.open("/dev/kfd")
    m.refuse("KFD_GET_VERSION", errno.EAGAIN)
    with pytest.raises(IoctlError, match="EAGAIN"):
        version(m, fd)


def test_calls_are_listed_by_name(machine):
    m = machine()
    m.close(m.open("/dev/kfd"))
    m.read(f"{NODES}/1/gpu_id")
    assert list(m.calls) == ["open /dev/kfd", "close", f"read {NODES}/1/gpu_id"]


# Time


@pytest.mark.row("SIM-10")
def test_thirty_seconds_of_waiting_cost_a_few_looks(machine):
    m = machine(seed=1)
    start, looks = m.now(), 0
    while m.now() < start + 30:
        m.relax()
        looks += 1
    assert looks < 400


def test_real_time_is_real(machine):
    m = machine()
    before = m.now()
    m.relax()
    assert before < m.now() < before + 5
