def test_a_semaphore_is_released_through_the_doorbell(client):
    mine = client()
    channel = mine.channel()
    cell = mine.buffer()
    channel.submit(
        0x2005_0017,  # incrementing, 5 words, subchannel 0, SEM_ADDR_LO
        cell.address & 0xFFFFFFFF, cell.address >> 32, 7, 0, 0x0110_0001,
    )  # fmt: skip
    assert channel.finished()
    assert (channel.error, cell.region.read64(0)) == (None, 7)


def test_a_copy(client):
    mine = client(seed=3)
    channel = mine.channel()
    cell = mine.buffer(8192)
    cell.region.write(0, b"0123456789abcdef")
    src, dst = cell.address, cell.address + 4096
    channel.submit(
        0x2001_8000, mine.host.gpus[0].chip.copy_class,
        0x2004_8100, src >> 32, src & 0xFFFFFFFF, dst >> 32, dst & 0xFFFFFFFF,
        0x2001_8106, 16,
        0x2001_80C0, 0x182,
    )  # fmt: skip
    assert channel.finished()
    assert channel.error is None, mine.host.faults
    assert cell.region.read(4096, 16) == b"0123456789abcdef"
