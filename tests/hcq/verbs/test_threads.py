"""Many threads on one device of every chip."""

import threading

import pytest


@pytest.mark.row("HCQ-28")
def test_eight_threads_allocate_load_launch_copy_and_wait(device, compiled, words, run_all):
    def work(number):
        program = device.load(compiled("bump"), "bump")
        cell = device.allocate(4, zero=True)
        far = device.allocate(1024, cpu_access=False)
        data = bytes([number]) * 1024
        for _ in range(15):
            device.launch(program, [cell.address], (1, 1, 1), (1, 1, 1))
            device.copy_in(far, 0, data)
            back = bytearray(1024)
            device.copy_out(far, 0, back)
            assert back == data
        assert words(device, cell, 1) == [15]
        device.free(cell)
        device.free(far)
        program.free()

    run_all([lambda n=n: work(n) for n in range(8)])
    device.synchronize()


@pytest.mark.row("HCQ-28")
def test_submissions_of_one_thread_keep_their_order(device, run_all):
    record = device.allocate(4 * 8, zero=True)

    def work(number):
        for value in range(1, 40):
            queue = device.queue("compute")
            queue.poll(record.address + 4 * number, value - 1)  # the one before has run
            device.submit(queue.write(record.address + 4 * number, [value]))

    run_all([lambda n=n: work(n) for n in range(8)])
    device.synchronize()


def test_open_from_many_threads(place, vendor, run_all):
    place()
    opened = []
    run_all([lambda: opened.append(vendor.open(0)) for _ in range(4)])
    for device in opened:
        device.wait(device.submit(device.queue("compute").barrier()))
        device.close()


@pytest.mark.row("HCQ-28")
@pytest.mark.row("HCQ-31")
@pytest.mark.refusal
def test_closing_ends_the_waits_of_other_threads_before_memory_goes(place, vendor):
    import time

    from hcq.errors import DeviceLost

    place()
    device = vendor.open(0)
    signal = device.signals.take()
    errors = []

    def wait():
        try:
            device.wait_signal(signal, 5)
        except DeviceLost as error:
            errors.append(str(error).splitlines()[0])

    threads = [threading.Thread(target=wait) for _ in range(3)]
    for thread in threads:
        thread.start()
    time.sleep(0.1)
    device.close()
    for thread in threads:
        thread.join(5)
    assert errors == [f"{device.name} is closed"] * 3


@pytest.mark.row("HCQ-31")
@pytest.mark.refusal
def test_a_signal_of_a_closed_device_is_refused_not_read(place, vendor):
    from hcq.errors import BufferUseError

    place()
    device = vendor.open(0)
    signal = device.signals.take()
    device.close()
    with pytest.raises(BufferUseError, match="access outside a mapped window"):
        _ = signal.value
