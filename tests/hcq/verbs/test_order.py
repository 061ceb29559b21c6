"""Random work over both queues against a model, under many interleavings, on every chip."""

import random

import pytest

SIZE = 4096


@pytest.mark.row("HCQ-07")
@pytest.mark.row("HCQ-23")
@pytest.mark.parametrize("seed", [None, *range(6)])
def test_any_mix_of_work_gives_what_doing_it_in_order_gives(place, vendor, compiled, seed):
    place(seed=seed)
    device = vendor.open(0, timeline_start=(1 << 32) - 30)
    bump = device.load(compiled("bump"), "bump")
    rng = random.Random(seed)
    places = ({}, {"cpu_access": False}, {"host": True}, {"host": True, "uncached": True})
    buffers = [device.allocate(SIZE, zero=True, **options) for options in places]
    model = [bytearray(SIZE) for _ in buffers]

    def copy_in():
        i, at, size = rng.randrange(4), rng.randrange(SIZE), rng.randrange(1, 300)
        data = rng.randbytes(min(size, SIZE - at))
        device.copy_in(buffers[i], at, data)
        model[i][at : at + len(data)] = data

    def copy():
        i, j, size = rng.randrange(4), rng.randrange(4), rng.randrange(1, 600)
        to, at = rng.randrange(SIZE - size), rng.randrange(SIZE - size)
        device.copy(buffers[i].address + to, buffers[j].address + at, size)
        model[i][to : to + size] = bytes(model[j][at : at + size])

    def fill():
        i, at, value = rng.randrange(4), rng.randrange(SIZE - 64), rng.randrange(256)
        device.submit(device.queue("copy").fill(buffers[i].address + at, value, 64))
        model[i][at : at + 64] = bytes([value]) * 64

    def launch():
        i, at = rng.randrange(4), 4 * rng.randrange(SIZE // 4)
        device.launch(bump, [buffers[i].address + at], (1, 1, 1), (1, 1, 1))
        value = int.from_bytes(model[i][at : at + 4], "little") + 1
        model[i][at : at + 4] = (value % (1 << 32)).to_bytes(4, "little")

    def copy_out():
        i = rng.randrange(4)
        back = bytearray(SIZE)
        device.copy_out(buffers[i], 0, back)
        assert back == model[i]

    for _ in range(120):
        rng.choice((copy_in, copy, copy, fill, launch, launch, copy_out))()
    for buffer, expected in zip(buffers, model, strict=True):
        back = bytearray(SIZE)
        device.copy_out(buffer, 0, back)
        assert back == expected
    device.close()
