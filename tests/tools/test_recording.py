"""What HCQ_CAPTURE recorded, read back by hcq-dump: the round trip."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def record(path, script, *arguments):
    """Run a script on a simulated GPU under HCQ_CAPTURE; the simulator's counters."""
    done = subprocess.run(
        [sys.executable, "-m", "sim", "--stats", script, *arguments],
        cwd=ROOT,
        env={**os.environ, "HCQ_CAPTURE": str(path), "DEVICE": "AMD"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return {name: int(value) for name, value in re.findall(r"^(\w+) (\d+)$", done.stderr, re.M)}


@pytest.fixture(scope="module")
def recording(tmp_path_factory):
    """(file, counters) of examples/vector_add.py."""
    path = tmp_path_factory.mktemp("recording") / "vector_add.jsonl"
    return path, record(path, "examples/vector_add.py")


@pytest.mark.row("PRO-10")
def test_every_packet_of_a_recorded_run_is_printed_and_known(recording, cat):
    path, counters = recording
    code, lines, summary = cat(path)
    packets = [line for line in lines if re.match(r"AMD:0/compute0 s\d+ +b0 \+0x", line)]
    assert (code, len(packets)) == (0, counters["packets"])
    words = sum(
        len(json.loads(text)["words"])
        for text in path.read_text().splitlines()
        if '"submission"' in text
    )
    expected = f"{len(packets)} packets, {words} of {words} words used, 0 unknown\n"
    assert summary == expected
    assert not [line for line in lines if "?0x" in line or "!torn" in line]


@pytest.mark.row("PRO-10")
def test_the_launch_is_there_with_its_size_and_the_host_traffic_around_it(recording, cat):
    _, lines, _ = cat(recording[0])
    (launch,) = [n for n, line in enumerate(lines) if "DISPATCH_DIRECT" in line]
    assert lines[launch].endswith(
        "DISPATCH_DIRECT x=256 y=1 z=1 CS_W32_EN=1 FORCE_START_AT_000=1 COMPUTE_SHADER_EN=1"
    )
    assert any("COMPUTE_NUM_THREAD_X=0x100" in line for line in lines[:launch])
    assert any(line.startswith("ioctl        KFD_CREATE_QUEUE fd=") for line in lines[:launch])
    assert any(line.startswith("ioctl        KFD_DESTROY_QUEUE fd=") for line in lines[launch:])
    assert "device       AMD:0 vendor=amd arch=gfx1100" in lines[:launch]


@pytest.mark.row("PRO-10")
def test_ioctls_show_what_came_back(recording, cat):
    _, lines, _ = cat(recording[0])
    version = "major_version=0x0 minor_version=0x0 -> major_version=0x1 minor_version=0x11"
    assert re.fullmatch(rf"ioctl        KFD_GET_VERSION fd=\d+ ret=0 {version}", lines[0])


@pytest.mark.row("PRO-10")
def test_a_training_run_decodes_to_the_packets_the_gpu_took(tmp_path, cat):
    path = tmp_path / "train.jsonl"
    counters = record(path, "examples/train.py", "--steps", "2")
    code, lines, summary = cat(path)
    assert code == 0
    assert summary.startswith(f"{counters['packets']} packets, ")
    assert sum("DISPATCH_DIRECT" in line for line in lines) == counters["dispatches"]
    copies = [int(re.search(r" n=(\d+)", line)[1]) for line in lines if "COPY_LINEAR" in line]
    assert sum(copies) == counters["sdma_bytes"]


@pytest.mark.row("PRO-10")
def test_a_recording_cut_by_a_crash_is_read_up_to_the_cut(recording, cat, tmp_path):
    data = recording[0].read_bytes()
    cut = tmp_path / "cut.jsonl"
    cut.write_bytes(data[: data.index(b'"submission"') + 200])
    code, lines, summary = cat(cut)
    assert code == 3
    assert lines[-1].startswith("ioctl ")
    assert "1 torn" in summary


@pytest.mark.row("PRO-10")
def test_json_lines_keep_words_and_fields(recording, cat):
    _, lines, _ = cat(recording[0], "--jsonl")
    packets = [p for p in map(json.loads, lines) if p["record"] == "packet"]
    launch = next(p for p in packets if p["op"] == "DISPATCH_DIRECT")
    assert launch["dw"][1:4] == ["0x00000100", "0x00000001", "0x00000001"]
    assert (launch["device"], launch["queue"], launch["engine"]) == ("AMD:0", "compute0", "PM4")
    assert launch["fields"]["x"] == 256


def lines_of(*records):
    return "".join(json.dumps(r) + "\n" for r in records)


HEAD = {"record": "capture", "seq": 0, "schema": "0.1"}


def test_unknown_records_and_keys_are_passed_over(tmp_path, cat):
    path = tmp_path / "later.jsonl"
    words = ["80000000", "c0001000", "00000007"]
    path.write_text(
        lines_of(
            {**HEAD, "schema": "0.9", "new": 1},
            {"record": "weather", "seq": 1, "sky": "blue"},
            {"record": "submission", "seq": 2, "queue": "compute0", "words": words, "more": 2},
        )
    )
    code, lines, _ = cat(path)
    assert code == 0
    assert [line.split("PM4  ")[1] for line in lines] == ["FILLER", "NOP words=1"]


def test_indirect_buffers_follow_the_ring_words_that_point_to_them(tmp_path, cat):
    path = tmp_path / "indirect.jsonl"
    inside = {"address": "0x7f00004000", "words": ["c0001000", "00000007"]}
    words = ["c0023f00", "00004000", "0000007f", "00800002"]
    keys = {"device": "AMD:0", "queue": "compute0", "kind": "compute"}
    record = {"record": "submission", "seq": 1, **keys, "words": words, "indirect": [inside]}
    path.write_text(lines_of(HEAD, record))
    code, lines, _ = cat(path)
    assert code == 0
    assert lines == [
        "AMD:0/compute0 s1   b0 +0x0000 [ 4] PM4  INDIRECT_BUFFER ib=0x7f00004000 ndw=2 valid=1",
        "AMD:0/compute0 s1   b1 +0x0000 [ 2] PM4  NOP at=0x7f00004000 words=1",
    ]


@pytest.mark.refusal
def test_another_schema_is_refused_with_both(tmp_path, cat):
    path = tmp_path / "other.jsonl"
    path.write_text(lines_of({**HEAD, "schema": "7.2"}))
    code, lines, summary = cat(path)
    assert (code, lines) == (2, [])
    assert "recorded with schema 7.2, this reads 0.x" in summary


@pytest.mark.refusal
@pytest.mark.parametrize(
    "bad",
    [
        {"record": "submission", "seq": 1},
        {"record": "submission", "seq": 1, "words": ["zz"]},
        {"record": "submission", "seq": 1, "words": ["fffffffff"]},
        {"record": "ioctl", "seq": 1, "fd": 3},
    ],
)
def test_a_record_without_its_keys_is_refused_by_number(tmp_path, cat, bad):
    path = tmp_path / "bad.jsonl"
    path.write_text(lines_of(HEAD, bad))
    code, _, summary = cat(path)
    assert code == 2
    assert f"record 1 is no {bad['record']} record" in summary


@pytest.mark.refusal
@pytest.mark.parametrize("text", ["{not json", "5"])
def test_a_broken_line_in_the_middle_is_refused_by_number(tmp_path, cat, text):
    path = tmp_path / "bad.jsonl"
    path.write_text(lines_of(HEAD) + text + "\n" + lines_of(HEAD))
    code, _, summary = cat(path)
    assert code == 2
    assert "line 2 is not a JSON object" in summary


# Picking


@pytest.fixture
def two_queues(tmp_path):
    """A recording: an ioctl, a submission of each of two queues, another of the first."""
    keys = {"device": "AMD:0", "words": ["80000000"]}
    queues = ("compute0", "copy0", "compute0")
    path = tmp_path / "two.jsonl"
    path.write_text(
        lines_of(
            HEAD,
            {"record": "ioctl", "seq": 1, "fd": 3, "name": "KFD_GET_VERSION", "ret": 0},
            *(
                {"record": "submission", "seq": 2 + n, "queue": queue, "kind": "compute", **keys}
                for n, queue in enumerate(queues)
            ),
        )
    )
    return path


@pytest.mark.parametrize(
    ("options", "found"),
    [
        ((), ["ioctl", "s2", "s3", "s4"]),
        (("--no-ioctl",), ["s2", "s3", "s4"]),
        (("--queue", "compute0"), ["s2", "s4"]),
        (("--queue", "c*y?"), ["s3"]),
        (("--queue", "AMD:0/copy0"), ["s3"]),
        (("--sub", "4"), ["s4"]),
        (("--sub", "4", "--queue", "compute0"), ["s4"]),
    ],
)
def test_submissions_can_be_picked(two_queues, cat, options, found):
    code, lines, summary = cat(two_queues, *options)
    assert code == 0
    assert [re.search(r"^ioctl|s\d", line)[0] for line in lines] == found
    assert summary.startswith(f"{len([f for f in found if f != 'ioctl'])} packets, ")


@pytest.mark.refusal
def test_a_pick_that_finds_nothing_names_what_there_is(two_queues, cat):
    code, lines, summary = cat(two_queues, "--queue", "compute1")
    assert (code, lines) == (2, [])
    assert "two.jsonl holds no submission for --queue compute1" in summary
    assert "queues=compute0, copy0" in summary


def test_json_lines_of_host_traffic_have_keys(recording, cat):
    _, lines, _ = cat(recording[0], "--jsonl")
    found = [json.loads(line) for line in lines]
    call = next(record for record in found if record.get("name") == "KFD_GET_VERSION")
    assert (call["record"], call["file"], call["ret"], call["errno"]) == ("ioctl", "/dev/kfd", 0, 0)
    assert call["args"] == {"major_version": "0x0", "minor_version": "0x0"}
    assert call["out"] == {"major_version": "0x1", "minor_version": "0x11"}
    assert call["seq"] > 0
    assert call["dur"] >= 0
    assert {"record": "device", "name": "AMD:0", "vendor": "amd", "arch": "gfx1100"} in found


def test_json_lines_have_lists_instead_of_pointers(recording, cat):
    _, lines, _ = cat(recording[0], "--jsonl")
    calls = (json.loads(line) for line in lines)
    mapped = next(call for call in calls if call.get("name") == "KFD_MAP_MEMORY_TO_GPU")
    assert re.fullmatch(r"\[0x[0-9a-f]+\]", mapped["args"]["device_ids_array_ptr"])
