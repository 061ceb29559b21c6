"""What HCQ_CAPTURE recorded of an NVIDIA device, read back by hcq-dump."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPT = """
import sys
sys.path.insert(0, "tests/device")
import kernels
from hcq import nv
from jit.codegen.machine import emit_assembly
from jit.codegen.nvjitlink import link

device = nv.open(0)
text = emit_assembly(kernels.NV.triple, device.target, kernels.text("store", kernels.NV))
program = device.load(link(text, device.target, "store"), "store")
out = device.allocate(4 * kernels.THREADS)
for _ in range(2):
    device.launch(program, (out.address,), (2, 1, 1), (kernels.THREADS, 1, 1), wait=True)
bound = device.bind(device.queue("compute").write(out.address, [1, 2, 3]))
device.wait(device.submit(bound))
device.close()
"""


@pytest.fixture(scope="module", params=["sm_86", "sm_90", "sm_120"])
def recording(request, tmp_path_factory):
    """The recording of SCRIPT on a simulated GPU."""
    pytest.importorskip("nvidia", reason="nvidia-nvjitlink (extra nv) is not installed")
    folder = tmp_path_factory.mktemp("recording")
    (folder / "script.py").write_text(SCRIPT)
    done = subprocess.run(
        [sys.executable, "-m", "sim", "--gpu", request.param, str(folder / "script.py")],
        cwd=ROOT,
        env={**os.environ, "HCQ_CAPTURE": str(folder / "run.jsonl")},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return folder / "run.jsonl"


@pytest.mark.row("PRO-10")
def test_every_word_of_a_recorded_run_is_known(recording, cat):
    code, lines, summary = cat(recording)
    assert code == 0
    assert summary.endswith(" words used, 0 unknown\n")
    assert not [line for line in lines if re.search(r"\?0x|!torn|UNRECORDED", line)]


@pytest.mark.row("PRO-10")
def test_each_launch_points_to_its_record(recording, cat):
    _, lines, _ = cat(recording)
    sent = [re.search(r"SEND_PCAS_A .* qmd=(0x\w+) in (b\d+\+0x\w+)$", line) for line in lines]
    sent = [found.groups() for found in sent if found]
    records = [line for line in lines if re.search(r"QMD +QMDV", line)]
    places = [re.search(r" (b\d+) (\+0x\w+) .* at=(0x\w+) ", line).groups() for line in records]
    assert (len(sent), len(records)) == (2, 2)
    assert sent == [(at, buffer + offset) for buffer, offset, at in places]
    assert all(" grid=2,1,1 block=64,1,1 " in line for line in records)
    launches = [line for line in lines if "SEND_PCAS_A" in line]
    starts = [re.search(r" (b\d+) (\+0x\w+) ", line).groups() for line in launches]
    assert [line.rpartition(" | started by ")[2] for line in records] == [
        "".join(s) for s in starts
    ]


@pytest.mark.row("PRO-10")
def test_ring_entries_come_first_and_give_the_length_of_what_follows(recording, cat):
    _, lines, _ = cat(recording)
    entry = next(n for n, line in enumerate(lines) if " GP   ENTRY " in line)
    count = int(re.search(r"ndw=(\d+)", lines[entry])[1])
    place = lines[entry].split(" b0 ")[0]
    piece = [line for line in lines[entry:] if line.startswith(f"{place} b1 ")]
    assert sum(int(re.search(r"\[ ?(\d+)\]", line)[1]) for line in piece) == count


@pytest.mark.row("PRO-10")
def test_every_method_has_its_address_on_the_gpu(recording, cat):
    _, lines, _ = cat(recording)
    entry = next(line for line in lines if " GP   ENTRY " in line)
    begin = int(re.search(r"pb=(0x\w+)", entry)[1], 16)
    place = entry.split(" b0 ")[0]
    piece = [line for line in lines if line.startswith(f"{place} b1 ")]
    offsets = [int(re.search(r"\+(0x\w+)", line)[1], 16) for line in piece]
    found = [int(re.search(r" at=(0x\w+)", line)[1], 16) for line in piece]
    assert found == [begin + offset for offset in offsets]


@pytest.mark.row("PRO-10")
def test_a_bound_queue_is_read_where_it_lies(recording, cat):
    _, lines, _ = cat(recording)
    (data,) = [line for line in lines if "LOAD_INLINE_DATA=0x1,0x2,0x3" in line]
    assert " b2 " in data  # the frame is b1


@pytest.mark.row("PRO-10")
def test_calls_have_names_statuses_and_their_further_arguments(recording, cat):
    _, lines, _ = cat(recording)
    made = next(line for line in lines if "hClass=FERMI_VASPACE_A" in line)
    assert made.startswith("ioctl        NV_ESC_RM_ALLOC fd=")
    assert made.endswith("status=NV_OK inner={flags=0x48,vaSize=0x1fffffb000000,vaBase=0x1000}")
    asked = next(line for line in lines if "WORK_SUBMIT_TOKEN" in line)
    assert "cmd=NVC36F_CTRL_CMD_GPFIFO_GET_WORK_SUBMIT_TOKEN" in asked
    assert re.search(r"inner=\{\} inner_out=\{workSubmitToken=0x\w+\}$", asked)
    assert any(
        line.startswith("ioctl        UVM_REGISTER_GPU ") and line.endswith("rmStatus=NV_OK")
        for line in lines
    )


@pytest.mark.row("PRO-10")
def test_what_the_gpu_reported_about_itself_is_there(recording, cat):
    _, lines, _ = cat(recording)
    (told,) = [line for line in lines if "classList=[" in line]
    assert re.search(r"inner=\{numClasses=0x\w+\} inner_out=\{classList=\[NV01_ROOT_CLIENT,", told)
    assert re.search(r",(AMPERE|HOPPER|BLACKWELL)_COMPUTE_[AB],(AMPERE|HOPPER|BLACKWELL)_DMA", told)
    (told,) = [line for line in lines if "GR_GET_INFO" in line]
    assert re.search(r"inner_out=\{grInfoList=\{SM_VERSION=0x\w+,MAX_WARPS_PER_SM=0x\w+,", told)
    (told,) = [line for line in lines if "FB_GET_INFO" in line]
    assert re.search(r"inner_out=\{fbInfoList=\{HEAP_SIZE=0x\w+,BAR1_SIZE=0x\w+\}\}$", told)


def _out(call):
    return call.get("inner_out", {})


@pytest.mark.row("PRO-10")
def test_json_lines_type_what_the_gpu_reported(recording, cat):
    _, lines, _ = cat(recording, "--jsonl")
    found = [json.loads(line) for line in lines]
    calls = [call for call in found if call.get("name") == "NV_ESC_RM_CONTROL"]
    told = next(call for call in calls if isinstance(_out(call).get("classList"), list))
    assert told["names"] == {"cmd": "NV0080_CTRL_CMD_GPU_GET_CLASSLIST", "status": "NV_OK"}
    assert told["file"] == "/dev/nvidiactl"
    assert told["inner_out"]["classList"][:2] == ["NV01_ROOT_CLIENT", "NV01_DEVICE_0"]
    told = next(call for call in calls if "grInfoList" in _out(call))
    assert told["inner"]["grInfoList"]["SM_VERSION"] == 0
    assert told["inner_out"]["grInfoList"]["SM_VERSION"] > 0x800


@pytest.mark.row("PRO-10")
def test_json_lines_type_a_launch(recording, cat):
    _, lines, _ = cat(recording, "--jsonl", "--no-ioctl")
    records = [json.loads(line) for line in lines]
    launch = next(record for record in records if record["op"].startswith("QMDV"))
    assert launch["fields"]["grid"] == [2, 1, 1]
    assert launch["fields"]["block"] == [64, 1, 1]
    assert launch["fields"]["registers"] > 0
    assert re.fullmatch(r"0x[0-9a-f]+", launch["fields"]["program"])
    assert re.fullmatch(r"0x[0-9a-f]+00", launch["addr"])


def lines_of(*records):
    head = {"record": "capture", "seq": 0, "schema": "0.1"}
    return "".join(json.dumps(r) + "\n" for r in (head, *records))


@pytest.fixture
def ioctl(tmp_path, cat):
    """The line of a call with these keys."""

    def make(**keys):
        path = tmp_path / "one.jsonl"
        path.write_text(lines_of({"record": "ioctl", "seq": 1, "fd": 3, "ret": 0, **keys}))
        return cat(path)[1][0]

    return make


@pytest.mark.parametrize(("status", "name"), [("0x56", "NV_ERR_NOT_SUPPORTED"), ("0x7b", "?0x7b")])
def test_a_status_has_its_name(ioctl, status, name):
    args = {"hClass": "0x83de", "status": "0x0"}
    line = ioctl(name="NV_ESC_RM_ALLOC", args=args, out={**args, "status": status})
    assert line.endswith(f"hClass=GT200_DEBUGGER status=0x0 -> status={name}")


CLASS_LIST = {
    **{"args": {"cmd": "0x800201", "status": "0x0"}, "out": {"cmd": "0x800201", "status": "0x0"}},
    **{"inner": "02" + "00" * 7 + "0010000000000000"},
    **{"inner_out": "02" + "00" * 7 + "0010000000000000"},
}


@pytest.mark.parametrize(
    ("out", "text"),
    [
        ("c0cb0000efbe0000", "classList=[HOPPER_COMPUTE_A,?0xbeef]"),
        ("", "classList=?unread"),
    ],
)
def test_classes_have_their_names_where_one_is_known(ioctl, out, text):
    found = {"item": "uint32_t", "size": 8, "in": "00" * 8, "out": out}
    line = ioctl(name="NV_ESC_RM_CONTROL", **CLASS_LIST, lists={"classList": found})
    assert line.endswith(f"inner={{numClasses=0x2}} inner_out={{{text}}}")


def test_an_older_recording_shows_the_pointer_to_a_list(ioctl):
    line = ioctl(name="NV_ESC_RM_CONTROL", **CLASS_LIST)
    assert line.endswith("inner={numClasses=0x2,classList=0x1000}")


def test_an_index_without_a_name_is_shown_as_it_is(ioctl):
    args = {"cmd": "0x20801201", "status": "0x0"}
    pairs = {"item": "struct NVXXXX_CTRL_XXX_INFO", "size": 16}
    pairs |= {"in": "0c000000000000009900000000000000", "out": "0c000000090800009900000005000000"}
    more = {"inner": "02" + "00" * 31, "inner_out": "02" + "00" * 31}
    line = ioctl(name="NV_ESC_RM_CONTROL", args=args, out=args, lists={"grInfoList": pairs}, **more)
    assert line.endswith("inner_out={grInfoList={SM_VERSION=0x809,?0x99=0x5}}")


@pytest.mark.parametrize(
    ("name", "item"),
    [("NV_ESC_RM_CONTROL", "struct NEWER_PARAMS"), ("NEW_CALL", "uint32_t")],
)
def test_a_list_of_a_type_that_is_not_known_is_shown_as_bytes(ioctl, name, item):
    args = {"cmd": "0x1", "list": "0x1000"}
    found = {"item": item, "size": 4, "in": "00000000", "out": "01020304"}
    line = ioctl(name=name, args=args, out=args, lists={"list": found})
    assert line.endswith("list=?0x00000000 -> list=?0x01020304")


def test_an_event_is_shown_as_every_reading_that_says_something(ioctl):
    # struct kfd_event_data: a memory exception at 0x7f0000001000, event 5.
    data = (
        "01000000" + "00" * 12 + "001000007f000000" + "315d0000" + "00" * 12 + "05000000" + "00" * 4
    )
    event = {"item": "struct kfd_event_data", "size": 48, "in": "00" * 40 + "05000000" + "00" * 4}
    args = {"events_ptr": "0x1000", "num_events": "0x1"}
    event["out"] = data
    line = ioctl(name="KFD_WAIT_EVENTS", args=args, out=args, lists={"events_ptr": event})
    assert "memory_exception_data={failure={NotPresent=0x1," in line
    assert "va=0x7f00001000,gpu_id=0x5d31" in line
    assert line.endswith("event_id=0x5,pad=0x0}]")


def test_further_arguments_of_unknown_size_are_shown_as_they_are(ioctl):
    args = {"cmd": "0x800201", "status": "0x0"}
    more = {"inner": "0102", "inner_out": "0102"}
    line = ioctl(name="NV_ESC_RM_CONTROL", args=args, out=args, **more)
    assert line.endswith("status=NV_OK inner=?0x0102")


def test_classes_are_followed_through_submissions_that_are_not_picked(tmp_path, cat):
    path = tmp_path / "two.jsonl"
    # Two words at 0x100001000 each: SET_OBJECT of the copy class on subchannel 1, LAUNCH_DMA.
    keys = {"record": "submission", "arch": "sm_90", "entries": ["0000080100001000"]}
    path.write_text(
        lines_of(
            {**keys, "seq": 1, "queue": "q0", "words": ["20012000", "0000c8b5"]},
            {**keys, "seq": 2, "queue": "q0", "words": ["200120c0", "00000004"]},
        )
    )
    code, lines, _ = cat(path, "--sub", "2")
    assert code == 0
    assert "[ 2] C8B5 LAUNCH_DMA at=0x100001000 subch=1 form=INC" in lines[1]


@pytest.mark.refusal
def test_words_that_were_not_recorded_are_missed(tmp_path, cat):
    path = tmp_path / "cut.jsonl"
    # An entry of 4 words at 0x100001000; two were recorded.
    record = {"record": "submission", "seq": 1, "arch": "sm_90", "queue": "compute0"}
    record |= {"entries": ["0000100100001000"], "words": ["2001001e", "00000000"]}
    path.write_text(lines_of(record))
    code, lines, summary = cat(path)
    assert code == 3
    assert lines[-1].endswith("[ 0] PB   UNRECORDED at=0x100001008 words=2")
    assert "1 torn" in summary
