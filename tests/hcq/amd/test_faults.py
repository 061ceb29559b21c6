"""What the GPU does wrong, told in sentences."""

import pytest

from hcq import amd
from hcq.errors import DeviceLost, GpuFault, GpuTimeout


@pytest.mark.row("AMD-17")
@pytest.mark.row("HCQ-12")
@pytest.mark.refusal
def test_address_zero_names_kernel_page_and_kind(device, compiled):
    program = device.load(compiled("bump"), "bump")
    device.launch(program, [0], (1, 1, 1), (1, 1, 1))
    with pytest.raises(GpuFault, match="AMD:0: kernel bump used a page that is not mapped") as e:
        device.synchronize()
    facts = e.value.facts
    assert (facts["address"], facts["kind"], facts["queue"]) == ("0x0", "not-present", "compute0")
    assert facts["submission"] == device.work.timeline.submitted
    assert e.value.hint


@pytest.mark.row("AMD-17")
@pytest.mark.row("HCQ-12")
@pytest.mark.refusal
def test_one_past_the_end_names_the_buffer_and_the_distance(device, compiled):
    program = device.load(compiled("bump"), "bump")
    weights = device.allocate(65536, name="weights")
    device.launch(program, [weights.address + 65536], (1, 1, 1), (1, 1, 1))
    with pytest.raises(GpuFault) as caught:
        device.synchronize()
    nearest = caught.value.facts["nearest"]
    # The page after a buffer may belong to another one; both are true.
    assert nearest.startswith("weights (65536 bytes), 0 bytes past its end") or "before" in nearest


@pytest.mark.row("HCQ-12")
@pytest.mark.refusal
def test_a_freed_buffer_is_named_with_when_it_was_freed(device, compiled):
    program = device.load(compiled("bump"), "bump")
    gone = device.allocate(8192, name="gone")
    address = gone.address
    device.free(gone)
    device.launch(program, [address + 16], (1, 1, 1), (1, 1, 1))
    with pytest.raises(GpuFault) as caught:
        device.synchronize()
    assert caught.value.facts["nearest"].startswith("gone (8192 bytes), freed at submission 0")


@pytest.mark.row("AMD-17")
@pytest.mark.refusal
def test_running_data_is_a_no_execute_fault(device, compiled):
    program = device.load(compiled("bump"), "bump")
    data = device.allocate(4096, name="data")
    program.entry_address = data.address
    device.submit(device.queue("compute").launch(program, data.address, (1, 1, 1), (1, 1, 1)))
    with pytest.raises(GpuFault, match="ran code from a page without execute rights") as caught:
        device.synchronize()
    assert caught.value.facts["kind"] == "no-execute"


@pytest.mark.row("AMD-17")
@pytest.mark.refusal
def test_a_bad_copy_is_a_fault_without_a_kernel(device):
    device.submit(device.queue("copy").copy(0x10_0000, 0x20_0000, 64))
    with pytest.raises(GpuFault, match="kernel unknown used a page") as caught:
        device.synchronize()
    assert caught.value.facts["queue"] == "copy0"


@pytest.mark.row("HCQ-10")
@pytest.mark.refusal
def test_a_fault_is_raised_once_then_the_device_is_lost(device, compiled):
    program = device.load(compiled("bump"), "bump")
    device.launch(program, [0], (1, 1, 1), (1, 1, 1))
    with pytest.raises(GpuFault):
        device.synchronize()
    with pytest.raises(DeviceLost, match="is lost since: GpuFault on AMD:0: kernel bump") as caught:
        device.synchronize()
    assert not isinstance(caught.value, GpuFault)
    assert caught.value.facts["health"] == device.health() == "restart-process"
    assert caught.value.hint == "restart the process: the kernel has stopped its queues"


@pytest.mark.row("AMD-17")
@pytest.mark.refusal
@pytest.mark.parametrize(("cause", "text"), [("hang", "a hang"), ("ecc", "memory .ECC. error")])
def test_a_reset_names_kind_cause_and_lost_memory(machine, cause, text):
    sim = machine()
    device = amd.open(0)
    flag = device.allocate(16, host=True, uncached=True, zero=True)
    device.submit(device.queue("compute").poll(flag.address, 1))
    sim.reset_gpu(0, cause)
    match = rf"AMD:0 was reset \(whole GPU\) because of .*{text}"
    with pytest.raises(DeviceLost, match=match) as e:
        device.synchronize()
    assert "memory was lost" in str(e.value)
    assert e.value.facts["memory_lost"] == 1
    device.close()


@pytest.mark.row("HCQ-11")
@pytest.mark.refusal
def test_an_endless_kernel_is_named(machine, compiled):
    machine(watchdog=0.2)
    device = amd.open(0)
    program = device.load(compiled("spin"), "spin")
    flag = device.allocate(4, host=True, uncached=True, zero=True)
    device.launch(program, [flag.address], (1, 1, 1), (1, 1, 1))
    with pytest.raises(DeviceLost, match=r"because of a hang; .*kernel spin was running"):
        device.synchronize()
    device.close()


@pytest.mark.row("HCQ-12")
@pytest.mark.refusal
def test_the_text_is_never_empty_when_the_driver_gives_nothing():
    from hcq.amd.events import MemoryFault
    from hcq.amd.faults import memory_fault
    from hcq.faults import Scene

    fault = MemoryFault(0, False, False, False, True, 0)
    scene = Scene("AMD:0", 3, 5, [], ["compute0 put 9 get 7"])
    text = str(memory_fault(fault, scene, "no buffer of this device"))
    assert "the driver gave no details (imprecise: the address may be off)" in text
    assert "compute0 put 9 get 7" in text
    assert "finished=3 submitted=5" in text


@pytest.mark.row("HCQ-10")
@pytest.mark.refusal
def test_errors_pickle():
    import pickle

    from hcq.faults import Scene, hang

    error = hang(Scene("AMD:0", 0, 1, [], []), 0.5, "value 1", {}, "")
    again = pickle.loads(pickle.dumps(error))
    assert isinstance(again, GpuTimeout)
    assert str(again) == str(error)


@pytest.mark.row("AMD-17")
@pytest.mark.refusal
def test_writing_to_a_read_only_page_is_told_as_such(device, compiled):
    from hcq.amd.memory import HOST_FLAGS
    from hcq.ioctl_defs import kfd

    program = device.load(compiled("bump"), "bump")
    constants = device.memory.allocate(
        4096, HOST_FLAGS & ~kfd.ALLOC_WRITABLE, view=True, name="constants"
    )
    device.launch(program, [constants.address], (1, 1, 1), (1, 1, 1))
    with pytest.raises(GpuFault, match="kernel bump wrote to a read-only page") as caught:
        device.synchronize()
    facts = caught.value.facts
    assert (facts["kind"], facts["access"]) == ("read-only", "write")
    assert facts["nearest"] == "constants (4096 bytes), offset 0"


@pytest.mark.row("HCQ-12")
def test_a_submission_too_long_ago_is_not_guessed():
    from hcq.faults import Scene, Submission, hang

    flying = [Submission(70, "compute0", ("late",), 9)]
    error = hang(Scene("AMD:0", 3, 70, flying, []), 0.5, "value 70", {}, "")
    assert error.facts["verdict"] == "stuck in submission 4, which is too long ago to be known"
    assert (error.facts["submission"], error.facts["kernel"]) == (4, "unknown")
