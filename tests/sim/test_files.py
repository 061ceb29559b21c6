import pytest

from sim.files import Files, properties


@pytest.fixture
def files():
    made = Files()
    made.add("/sys/class/kfd/a/one", b"1")
    made.add("/sys/class/kfd/a/two", lambda: b"2")
    made.add("/sys/class/kfd/b", PermissionError(1, "no"))
    return made


def test_files_and_folders(files):
    assert files.list("/sys/class/kfd") == ["a", "b"]
    assert files.read("/sys/class/kfd/a/one") == b"1"
    assert files.read("/sys/class/kfd/a/two") == b"2"
    assert files.exists("/sys/class/kfd/a")
    assert not files.exists("/sys/class/kfd/aa")


def test_a_link_leads_to_the_same_files(files):
    files.link("/dev/dri/link", "/sys/class/kfd/a")
    assert files.read("/dev/dri/link/one") == b"1"
    assert files.list("/dev/dri/link") == ["one", "two"]


def test_a_folder_can_be_taken_away(files):
    files.remove("/sys/class/kfd/a")
    assert files.list("/sys/class/kfd") == ["b"]


@pytest.mark.refusal
def test_an_error_in_the_place_of_a_file_is_raised(files):
    with pytest.raises(PermissionError, match="no"):
        files.read("/sys/class/kfd/b")


@pytest.mark.refusal
def test_listing_a_file_or_nothing_is_refused(files):
    with pytest.raises(NotADirectoryError):
        files.list("/sys/class/kfd/a/one")
    with pytest.raises(FileNotFoundError):
        files.list("/sys/class/kfd/c")


def test_only_gpu_paths_are_owned(files):
    assert files.owns("/dev/kfd")
    assert files.owns("/sys/class/drm/renderD128/device")
    assert not files.owns("/dev/kfdx")
    assert not files.owns("/proc/cpuinfo")


def test_properties_are_lines():
    assert properties(a=1, b=2) == b"a 1\nb 2\n"
