"""Settings by environment, block and decorator."""

import re
import threading
import time

import pytest

from hcq import amd, settings
from hcq.errors import ConfigError, GpuTimeout
from hcq.settings import SETTINGS, Context, current_values, get, getenv


@pytest.fixture(autouse=True)
def unset(monkeypatch):
    for setting in SETTINGS.values():
        for name in (setting.name, *setting.aliases):
            monkeypatch.delenv(name, raising=False)


@pytest.mark.row("ENV-02")
def test_innermost_block_counts_and_each_end_restores():
    assert get("DEBUG") == 0
    with Context(DEBUG=1, LRU=0):
        assert (get("DEBUG"), get("LRU")) == (1, 0)
        with Context(DEBUG=2):
            assert (get("DEBUG"), get("LRU")) == (2, 0)
        assert (get("DEBUG"), get("LRU")) == (1, 0)
    assert (get("DEBUG"), get("LRU")) == (0, 1)


@pytest.mark.row("ENV-02")
def test_an_exception_restores_too():
    with pytest.raises(ZeroDivisionError), Context(DEBUG=3):
        _ = 1 / 0
    assert get("DEBUG") == 0


@pytest.mark.row("ENV-02")
def test_a_decorated_function_has_its_own_values_even_when_it_recurses():
    @Context(DEBUG=4)
    def level(depth):
        return [get("DEBUG"), *(level(depth - 1) if depth else ())]

    assert level(2) == [4, 4, 4]
    assert get("DEBUG") == 0


@pytest.mark.row("ENV-02")
def test_a_decorated_function_that_raises_restores():
    @Context(DEBUG=4)
    def fail():
        raise KeyError("x")

    with pytest.raises(KeyError):
        fail()
    assert get("DEBUG") == 0


@pytest.mark.row("ENV-02")
@pytest.mark.parametrize("setting", SETTINGS.values(), ids=SETTINGS)
def test_every_setting_is_read_from_variable_and_block(monkeypatch, setting):
    text, other = ("7", 8) if setting.kind is int else ("seven", "eight")
    assert get(setting.name) == setting.default
    monkeypatch.setenv(setting.name, text)
    assert get(setting.name) == setting.kind(text)
    with Context(**{setting.name: other}):
        assert get(setting.name) == other
    assert get(setting.name) == setting.kind(text)


@pytest.mark.row("ENV-02")
def test_a_block_holds_in_its_own_thread_only():
    seen, inside, done = [], threading.Event(), threading.Event()

    def other():
        seen.append(get("DEBUG"))
        with Context(DEBUG=5):
            inside.set()
            done.wait(5)
            seen.append(get("DEBUG"))

    with Context(DEBUG=2):
        thread = threading.Thread(target=other)
        thread.start()
        inside.wait(5)
        assert get("DEBUG") == 2
        done.set()
        thread.join()
    assert seen == [0, 5]


@pytest.mark.row("ENV-02")
def test_blocks_that_end_out_of_order_leave_the_others_alone():
    def generator():
        with Context(DEBUG=1):
            yield get("DEBUG")

    inner = generator()
    with Context(LRU=0):
        assert next(inner) == 1
    assert (get("LRU"), get("DEBUG")) == (1, 1)
    inner.close()
    assert (get("LRU"), get("DEBUG")) == (1, 0)


@pytest.mark.row("ENV-02")
@pytest.mark.refusal
def test_unknown_setting_gets_the_nearest():
    with pytest.raises(ConfigError, match="no setting 'DEBUGG', did you mean 'DEBUG'"):
        Context(DEBUGG=1)
    with pytest.raises(ConfigError, match="no setting 'LRUU', did you mean 'LRU'"):
        get("LRUU")


@pytest.mark.row("ENV-02")
@pytest.mark.refusal
@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("DEBUG", "loud", "DEBUG='loud' is not int"),
        ("DEBUG", 1.5, "DEBUG=1.5 is not int"),
        ("DEBUG", None, "DEBUG=None is not int"),
        ("DEBUG", float("inf"), "DEBUG=inf is not int"),
        ("DEVICE", None, "DEVICE=None is not str"),
        ("DEVICE", 1, "DEVICE=1 is not str"),
        ("DEBUG", -1, "DEBUG=-1 is below 0"),
        ("HCQ_TIMEOUT_MS", 0, "HCQ_TIMEOUT_MS=0 is below 1"),
    ],
)
def test_bad_value_is_refused_and_nothing_is_cut_off(name, value, text):
    with pytest.raises(ConfigError, match=re.escape(text)):
        Context(**{name: value})
    assert current_values() == {}


@pytest.mark.row("ENV-02")
def test_an_alias_stands_for_its_setting_in_a_block():
    with Context(DEV="CPU"):
        assert get("DEVICE") == "CPU"


@pytest.mark.refusal
def test_a_setting_and_its_alias_must_agree_in_a_block():
    with pytest.raises(ConfigError, match="DEVICE is given twice and differs"):
        Context(DEV="CPU", DEVICE="AMD")


def test_current_values_are_what_blocks_set():
    with Context(DEBUG=1, LRU=0), Context(DEBUG=2):
        assert current_values() == {"DEBUG": 2, "LRU": 0}


def test_getenv_reads_any_variable_as_the_type_of_its_default(monkeypatch):
    monkeypatch.setenv("MY_COUNT", "12")
    assert getenv("MY_COUNT", 3) == 12
    assert getenv("MY_OTHER", 3) == 3
    with Context(DEBUG=2):
        assert getenv("DEBUG") == 2


# The queue group.


def hang(device):
    """Queue work that waits for ever; wait for it."""
    cell = device.allocate(4096, host=True, zero=True)
    device.wait(device.submit(device.queue("compute").wait(cell.address, 1)))


@pytest.mark.row("ENV-08")
@pytest.mark.refusal
@pytest.mark.parametrize("name", ["HCQ_TIMEOUT_MS", "HCQDEV_WAIT_TIMEOUT_MS"])
def test_wait_without_progress_ends_at_the_limit(machine, monkeypatch, name):
    machine()
    monkeypatch.setenv(name, "200")
    device = amd.open(0)
    start = time.monotonic()
    with pytest.raises(GpuTimeout, match=r"200 ms|0\.2 s"):
        hang(device)
    assert 0.2 <= time.monotonic() - start < 1.2
    device.close()


@pytest.mark.row("ENV-08")
def test_the_default_limit_is_30_seconds():
    assert settings.get("HCQ_TIMEOUT_MS") == 30000


@pytest.mark.row("ENV-08")
@pytest.mark.refusal
def test_limit_and_alias_must_agree(monkeypatch):
    monkeypatch.setenv("HCQ_TIMEOUT_MS", "200")
    monkeypatch.setenv("HCQDEV_WAIT_TIMEOUT_MS", "300")
    with pytest.raises(ConfigError, match="HCQ_TIMEOUT_MS and HCQDEV_WAIT_TIMEOUT_MS are both set"):
        get("HCQ_TIMEOUT_MS")


@pytest.mark.row("ENV-08")
def test_capture_file_is_written_and_only_when_named(machine, monkeypatch, tmp_path):
    machine()
    path = tmp_path / "run.jsonl"
    monkeypatch.setenv("HCQ_CAPTURE", str(path))
    amd.open(0).close()
    assert path.read_text().startswith('{"record":"capture"')
    size = path.stat().st_size
    monkeypatch.delenv("HCQ_CAPTURE")
    amd.open(0).close()
    assert path.stat().st_size == size
