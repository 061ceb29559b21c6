import json

import pytest

from hcq import host
from hcq.errors import FileFormatError, IoctlError, SimFault
from hcq.ioctl_defs import kfd
from sim.replay import Replay, load


def record(name, args, out=None, errno=0):
    return json.dumps(
        {
            "record": "ioctl",
            "seq": 1,
            "t": 0.0,
            "fd": 3,
            "name": name,
            "args": args,
            "out": out or args,
            "ret": -bool(errno),
            "errno": errno,
        }
    )


OPEN = json.dumps({"record": "object", "kind": "file", "id": "fd3", "path": "/dev/kfd"})
HEAD = json.dumps({"record": "capture", "seq": 0, "schema": "0.1"})
EMPTY = {"major_version": "0x0", "minor_version": "0x0"}
VERSION = record("KFD_GET_VERSION", EMPTY, {"major_version": "0x1", "minor_version": "0x11"})


@pytest.fixture
def replay(machine):
    def make(*lines):
        return Replay(machine(seed=1), load([HEAD, *lines]))

    return make


def version(found, fd):
    args = kfd.GET_VERSION.args()
    found.ioctl(fd, kfd.GET_VERSION, args)
    return args.minor_version


@pytest.mark.row("SIM-12")
def test_recorded_calls_pass(replay):
    found = replay(OPEN, VERSION)
    assert version(found, found.open("/dev/kfd")) == 17
    found.finish()


@pytest.mark.row("SIM-12")
@pytest.mark.refusal
def test_another_call_is_named_with_both(replay):
    found = replay(OPEN, record("KFD_DESTROY_QUEUE", {"queue_id": "0x0", "pad": "0x0"}))
    fd = found.open("/dev/kfd")
    with pytest.raises(SimFault, match=r"line 3: recorded ioctl KFD_DESTROY_QUEUE queue_id=0x0 "
                       r"pad=0x0, made ioctl KFD_GET_VERSION"):  # fmt: skip
        version(found, fd)


@pytest.mark.refusal
def test_another_argument_is_named(replay):
    found = replay(OPEN, record("KFD_DESTROY_QUEUE", {"queue_id": "0x0", "pad": "0x0"}))
    fd = found.open("/dev/kfd")
    with pytest.raises(SimFault, match=r"queue_id differs: recorded .*=0x0 .* made .*=0x5"):
        found.ioctl(fd, kfd.DESTROY_QUEUE, kfd.DESTROY_QUEUE.args(queue_id=5))


@pytest.mark.refusal
def test_another_answer_is_named(replay):
    found = replay(OPEN, record("KFD_GET_VERSION", EMPTY, {"minor_version": "0xb"}))
    fd = found.open("/dev/kfd")
    with pytest.raises(SimFault, match=r"minor_version differs: .*=0xb, answered .*=0x11"):
        version(found, fd)


def test_a_recorded_refusal_is_given_again(replay):
    found = replay(OPEN, record("KFD_GET_VERSION", EMPTY, errno=1))
    fd = found.open("/dev/kfd")
    with pytest.raises(IoctlError, match="Operation not permitted"):
        version(found, fd)


@pytest.mark.refusal
def test_a_call_too_many_and_one_too_few(replay):
    found = replay(OPEN)
    fd = found.open("/dev/kfd")
    with pytest.raises(SimFault, match="one call more than was recorded: ioctl KFD_GET_VERSION"):
        version(found, fd)
    found = replay(OPEN, VERSION)
    found.open("/dev/kfd")
    with pytest.raises(SimFault, match="1 recorded calls were not made; line 3: ioctl KFD_GET"):
        found.finish()


@pytest.mark.refusal
@pytest.mark.parametrize("line", ["no json", "{}", '{"record": "capture", "schema": "9.0"}'])
def test_a_bad_line_is_named(line):
    with pytest.raises(FileFormatError, match="line 2 is no record of a capture"):
        load([HEAD, line])


def test_handles_may_have_other_numbers_but_stay_themselves(replay):
    free = {"handle": "0x77"}, {"handle": "0x78"}
    found = replay(OPEN, *(record("KFD_FREE_MEMORY_OF_GPU", f, errno=22) for f in free))
    fd = found.open("/dev/kfd")
    with pytest.raises(IoctlError):
        found.ioctl(fd, kfd.FREE_MEMORY_OF_GPU, kfd.FREE_MEMORY_OF_GPU.args(handle=5))
    with pytest.raises(IoctlError):
        found.ioctl(fd, kfd.FREE_MEMORY_OF_GPU, kfd.FREE_MEMORY_OF_GPU.args(handle=6))


@pytest.mark.row("SIM-12")
def test_a_recorded_run_of_the_driver_plays_back(machine, monkeypatch, tmp_path):
    from hcq import amd

    path = tmp_path / "run.jsonl"
    monkeypatch.setenv("HCQ_CAPTURE", str(path))
    first = machine(seed=3)
    amd.open(0).close()
    monkeypatch.delenv("HCQ_CAPTURE")
    first.shut_down()
    with open(path) as lines:
        found = Replay(machine(seed=3), load(lines))
    host.use(found)
    amd.open(0).close()
    found.finish()


@pytest.mark.row("SIM-12")
def test_a_recorded_session_with_nvidia_plays_back(machine, tmp_path):
    from hcq import nv
    from hcq.capture import CaptureHost, Recorder

    path = tmp_path / "capture"
    host.use(CaptureHost(machine(gpu="sm_90", seed=1), Recorder(str(path))))
    nv.open(0).close()
    again = Replay(machine(gpu="sm_90", seed=2), load(path.read_text().splitlines()))
    host.use(again)
    nv.open(0).close()
    again.finish()
    other = Replay(machine(gpu="sm_86", seed=2), load(path.read_text().splitlines()))
    host.use(other)
    with pytest.raises(SimFault, match=r"NV_ESC_CARD_INFO.*device_id=0x2335.*device_id=0x2204"):
        nv.open(0)
