import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from hcq.errors import ConfigError, Unsupported
from sim.launch import USAGE, main, parse

ROOT = Path(__file__).parents[2]
FOLDERS = [str(ROOT / "tests" / "sim" / "amd"), str(ROOT / "tests")]


def run(*arguments, cwd=ROOT, **more):
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [sys.executable, *arguments],
        capture_output=True, text=True, cwd=cwd, env=environment, timeout=60, check=False, **more,
    )  # fmt: skip


@pytest.fixture
def script(tmp_path):
    def make(text):
        path = tmp_path / "script.py"
        path.write_text(text)
        return str(path)

    return make


SEEN = "import sys; print(sys.argv[1:], __name__, sys.path[0], __file__)"


@pytest.mark.row("SIM-02")
def test_a_script_sees_what_it_sees_without_the_launcher(script):
    path = script(SEEN)
    plain = run(path, "a", "--gpu", "b")
    launched = run("-m", "sim", "--gpu", "gfx1100", path, "a", "--gpu", "b")
    assert launched.stdout == plain.stdout != ""


def test_a_module_sees_what_it_sees_without_the_launcher(tmp_path, script):
    script("import sys; print(sys.argv, __name__, sys.path[0])")
    plain = run("-m", "script", "a", cwd=tmp_path)
    launched = run("-m", "sim", "-m", "script", "a", cwd=tmp_path)
    assert launched.stdout == plain.stdout != ""


@pytest.mark.row("SIM-02")
@pytest.mark.parametrize(("text", "code"), [("raise SystemExit(7)", 7), ("1 / 0", 1), ("", 0)])
def test_the_exit_code_is_the_scripts(script, text, code):
    assert run("-m", "sim", script(text)).returncode == code


@pytest.mark.row("SIM-02")
def test_gpus_are_listed_and_multiplied(script):
    path = script("from hcq import host; print(host.current().list('/dev/dri'))")
    assert run("-m", "sim", path).stdout == "['renderD128']\n"
    two = run("-m", "sim", "--gpu", "gfx1100", "--gpu=gfx1100", "--count", "2", path)
    assert two.stdout == "['renderD128', 'renderD129', 'renderD130', 'renderD131']\n"


@pytest.mark.row("SIM-02")
def test_stats_are_one_counter_a_line_on_stderr(script):
    done = run("-m", "sim", "--stats", script("print('hello')"))
    assert done.stdout == "hello\n"
    assert done.stderr == (
        "dispatches 0\ninstructions 0\npackets 0\nwaves 0\nsdma_bytes 0\n"
        "methods 0\nwarps 0\ncopied_bytes 0\n"
    )


@pytest.mark.parametrize(
    ("gpu", "names"),
    [
        ("gfx1100", ["dispatches", "instructions", "packets", "waves", "sdma_bytes"]),
        ("sm_90", ["dispatches", "instructions", "methods", "warps", "copied_bytes"]),
    ],
)
def test_stats_are_in_the_words_of_the_vendors_that_are_there(machine, gpu, names):
    assert list(machine(gpu).stats) == names


@pytest.mark.row("SIM-02")
@pytest.mark.refusal
@pytest.mark.parametrize(
    "arguments",
    [
        ["--gpu", "gfx9999", "x.py"],
        ["--colour", "x.py"],
        ["--count", "none", "x.py"],
        ["--count", "0", "x.py"],
        ["--seed", "-1", "x.py"],
        ["--driver", "new", "x.py"],
        ["--gpu"],
        [],
        ["no-such-file.py"],
        ["--faults", "plan", "x.py"],
    ],
)
def test_a_bad_option_is_one_line_and_exit_code_2(arguments):
    written = []
    with pytest.raises(SystemExit, match="2"):
        main(arguments, written.append)
    assert len("".join(written).splitlines()) == 1


@pytest.mark.refusal
def test_the_process_ends_with_2_after_a_bad_option():
    done = run("-m", "sim", "--gpu", "gfx9999", "x.py")
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (2, "", 1)


@pytest.mark.refusal
@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--gpu", "gfx110", "x"], "did you mean 'gfx1100'.*chips: gfx1100"),
        (["--gpus", "x"], "no option '--gpus', did you mean '--gpu'.*chips: gfx1100"),
        (["--count", "x", "x"], "--count x: a whole number.*chips: gfx1100"),
        (["--gpu"], "option --gpu needs a value"),
        (["--stats"], "no script to run"),
        (["-m"], "no module to run"),
    ],
)
def test_what_a_bad_option_says(arguments, text):
    with pytest.raises(ConfigError, match=text):
        parse(arguments)


@pytest.mark.refusal
@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--driver", "new", "x"], "--driver new: a version such as 580.159.03 or a series of 550"),
        (["--driver", "999", "x"], "driver series 999 is not known; there are 550, 570, 580, 590"),
        (["--gpu", "sm_91", "x"], "did you mean 'sm_90'.*sm_80, sm_86, sm_89, sm_90, sm_100, sm_1"),
    ],
)
@pytest.mark.row("SIM-02")
def test_what_bad_options_for_nvidia_say(arguments, text):
    with pytest.raises(ConfigError, match=text):
        parse(arguments)


@pytest.mark.refusal
@pytest.mark.parametrize(
    ("name", "chip"),
    [
        *(("a100", "sm_80"), ("rtx3090", "sm_86"), ("RTX-A6000", "sm_86"), ("ad102", "sm_89")),
        *(("rtx4090", "sm_89"), ("RTX 4060 Ti", "sm_89"), ("L40S", "sm_89"), ("gh200", "sm_90")),
        *(("h100", "sm_90"), ("h200", "sm_90"), ("NVIDIA H100", "sm_90"), ("b200", "sm_100")),
        *(("gb200", "sm_100"), ("rtx5090", "sm_120"), ("GeForce RTX 5070 Ti", "sm_120")),
        *(
            ("7900xtx", "gfx1100"),
            ("Radeon RX 7900 XTX", "gfx1100"),
            ("Radeon Pro W7900", "gfx1100"),
        ),
    ],
)
def test_the_name_of_a_product_is_told_its_chip(name, chip):
    text = f"--gpu {name}: no such chip: {name} is simulated as {chip}; chips: "
    with pytest.raises(ConfigError, match=f"^{re.escape(text)}"):
        parse(["--gpu", name, "x"])


@pytest.mark.refusal
@pytest.mark.parametrize(
    "name", ["b300", "v100", "rtx2080", "7800xt", "apple", "sm_75", "sm_103", "sm_121", "gfx1201"]
)
def test_what_is_not_simulated_is_refused_without_a_guess(name):
    with pytest.raises(ConfigError, match=f"^--gpu {name}: no such chip; chips: gfx1100, sm_80"):
        parse(["--gpu", name, "x"])


@pytest.mark.refusal
@pytest.mark.parametrize(
    "options",
    [
        ["--gpu", "sm_120", "--driver", "550"],
        ["--driver", "550.54.14", "--gpu", "sm_90", "--gpu", "sm_100"],
    ],
)
def test_a_chip_younger_than_the_driver_is_refused(options):
    text = r"no driver 550\.[0-9.]+ for sm_1[02]0: series 570 is the first that has it"
    with pytest.raises(ConfigError, match=text):
        parse([*options, "x"])


@pytest.mark.refusal
def test_a_machine_refuses_them_too(machine):
    with pytest.raises(ConfigError, match=r"no driver 550\.163\.01 for sm_120: series 570"):
        machine("sm_120", driver="550")
    assert parse(["--gpu", "sm_120", "--driver", "570", "x"]).driver == "570"


VERSION = """
from hcq import host

machine = host.current()
print(machine.read("/sys/module/nvidia/version").decode().strip(), machine.exists("/dev/kfd"))
"""


@pytest.mark.row("SIM-02")
@pytest.mark.parametrize(
    ("options", "told"),
    [
        ([], "580.159.03 True"),
        (["--gpu", "sm_90", "--driver", "590"], "595.45.04 False"),
        (["--gpu", "sm_120", "--driver", "570.133.20"], "570.133.20 False"),
    ],
)
def test_the_driver_version_can_be_chosen(options, told, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(VERSION)
    done = run("-m", "sim", *options, str(script))
    assert done.stdout.strip() == told


@pytest.mark.refusal
def test_fault_plans_are_not_available_yet():
    with pytest.raises(Unsupported, match="not available yet"):
        parse(["--faults", "plan", "x"])


def test_options_and_their_defaults():
    options = parse(["script", "--stats"])
    assert (options.gpus, options.count) == (["gfx1100", "sm_90"], 1)
    assert options.seed is None
    assert (options.target, options.arguments, options.stats) == ("script", ["--stats"], False)
    options = parse(["--seed", "5", "--driver=580", "--stats", "-m", "mod", "x"])
    assert (options.seed, options.driver, options.stats) == (5, "580", True)
    assert (options.is_module, options.target, options.arguments) == (True, "mod", ["x"])


def test_help_tells_chips_defaults_and_what_each_option_means():
    done = run("-m", "sim", "--help")
    assert done.returncode == 0
    assert "chips: gfx1100, sm_80, sm_86, sm_89, sm_90, sm_100, sm_120\n" in done.stdout
    assert "default: gfx1100 and sm_90\n" in done.stdout
    assert "550, 570, 580, 590, 610;\n                 default: 580.159.03\n" in done.stdout
    options = set(re.findall(r"--?\w+", USAGE))
    assert len(options) == 7
    for option in options:
        assert re.search(rf"^  {option}\b.*  \w+", done.stdout, re.M), option


WORK = """
import sys
sys.path[:0] = {folders!r}
from hcq import host
from hcq.ioctl_defs import kfd
from conftest import Client
machine = host.current()
client = Client(machine).acquire()
out = client.memory(4096)
compute, copy = client.queue(), client.queue(kfd.QUEUE_TYPE_SDMA)
at = out.address
for value in range(1, 20):
    compute.submit(0xC0033700, 0x00100500, at & 0xFFFFFFFF, at >> 32, value)
    copy.submit(5, at + 64 & 0xFFFFFFFF, at >> 32, value)
    if value % 3 == 0:
        compute.finished()
compute.finished()
copy.finished()
print(out.region.read32(0), out.region.read32(64))
"""


@pytest.fixture
def work(script):
    return script(WORK.format(folders=FOLDERS))


@pytest.mark.row("SIM-07")
def test_a_seed_gives_the_same_log_in_two_processes(script):
    text = WORK.format(folders=FOLDERS) + "print(machine.log_hash)"
    path = script(text)
    first, second = (run("-m", "sim", "--seed", "4", path).stdout for _ in range(2))
    other = run("-m", "sim", "--seed", "5", path).stdout
    assert first == second
    assert first.startswith("19 19\n")
    assert other.startswith("19 19\n")
    assert other != first


@pytest.mark.row("SIM-07")
def test_free_running_gives_the_same_result_on_one_core_too(work):
    assert run("-m", "sim", work).stdout == "19 19\n"
    pin = {"preexec_fn": lambda: os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})}
    assert run("-m", "sim", work, **pin).stdout == "19 19\n"


def test_a_script_may_leave_a_running_kernel_behind(script):
    text = (
        WORK.format(folders=FOLDERS)
        + """
code = client.memory(4096)
code.region.write32(0, 0xBFA0FFFF)  # s_branch to itself
code.region.write32(4, 0xBF9F0000)
compute.submit(
    0xC0027600, 0x20C, code.address >> 8 & 0xFFFFFFFF, code.address >> 40,
    0xC0027600, 0x212, 0x600F0003, 0, 0xC0037600, 0x207, 32, 1, 1,
    0xC0031500, 64, 1, 1, 0x8005)
import time
time.sleep(0.3)
print(machine.stats["dispatches"])
"""
    )
    done = run("-m", "sim", script(text))
    assert (done.returncode, done.stdout, done.stderr) == (0, "19 19\n1\n", "")


def test_work_of_atexit_functions_is_done(script):
    text = (
        WORK.format(folders=FOLDERS)
        + """
code = client.memory(4096)
loop = [0xBE8000FF, 0x10000, 0x80808100, 0xBF078000, 0xBFA2FFFD, 0xBFB00000]  # counts down s0
for index, word in enumerate(loop + [0xBF9F0000] * 64):
    code.region.write32(4 * index, word)
import atexit
@atexit.register
def drain():
    compute.submit(
        0xC0027600, 0x20C, code.address >> 8 & 0xFFFFFFFF, code.address >> 40,
        0xC0027600, 0x212, 0x600F0003, 0, 0xC0037600, 0x207, 32, 1, 1,
        0xC0031500, 256, 1, 1, 0x8005)
    print(compute.finished(), machine.faults)
"""
    )
    done = run("-m", "sim", script(text))
    assert (done.stdout, done.stderr) == ("19 19\nTrue []\n", "")


@pytest.mark.refusal
def test_a_seed_below_zero_is_told_what_is_accepted():
    with pytest.raises(ConfigError, match="--seed -1: a whole number of at least 0 is accepted"):
        parse(["--seed", "-1", "x.py"])


@pytest.mark.refusal
@pytest.mark.parametrize("module", ["nosuchmod", "nosuch.mod", "json.nosuchmod", "tests", "..x"])
def test_a_module_that_is_not_there_is_one_line_and_exit_code_2(module):
    done = run("-m", "sim", "-m", module)
    text = f"ConfigError: no module {module!r} that can be run\n"
    assert (done.returncode, done.stdout, done.stderr) == (2, "", text)


@pytest.mark.refusal
def test_a_module_that_needs_a_missing_one_says_so_itself(tmp_path, script):
    script("import nosuchmod")
    done = run("-m", "sim", "-m", "script", cwd=tmp_path)
    assert done.returncode == 1
    assert "No module named 'nosuchmod'" in done.stderr
