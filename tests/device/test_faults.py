"""What goes wrong around an emulated device: faults of kernels and of programs, processes that end."""

from __future__ import annotations

import os
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.device.acl import program
from tests.waiting import wait


def check(code: str, *texts: str, status: int = 0, **variables: str) -> str:
    """Run the program; what it prints, and its messages, must have these texts."""
    done = program(code, **variables)
    assert done.returncode == status, done.stdout + done.stderr
    for text in texts:
        assert text in done.stdout + done.stderr
    return done.stdout


def is_running(pid: int) -> bool:
    """Whether a process is there, and no zombie that nobody has waited for."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def await_end(pid: int) -> None:
    wait(lambda: not is_running(pid), f"process {pid} still runs")


def test_host_touches_device_memory():
    code = """
        address, free = acl.malloc(100), acl.malloc(64)
        acl.free(free)
        for touched in (address, address + 200, free):
            child = os.fork()
            if child == 0:
                c_char.from_address(touched).value
            print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        import faulthandler
        faulthandler.enable()
        sys.stdout.flush()
        c_char.from_address(address).value
    """
    printed = check(
        code,
        "the program touched device memory by the pointer 0x",
        "it is 0 bytes into the 100 bytes that aclrtMalloc gave at 0x",
        "it is 100 bytes behind the end of the 100 bytes",
        "it is memory that was freed: 0 bytes into the 64 bytes",
        "Fatal Python error: Segmentation fault",  # who had asked for the signal is asked, too
        status=-11,
    )
    assert printed.split() == ["-11"] * 3


def test_kernel_that_faults_ends_its_device_only():
    code = """
        for touched in ("free", "8", "far"):
            stream, free = acl.stream(), acl.malloc(64)
            far = acl.malloc(64) + 8192
            acl.free(free)
            acl.call(stream, "read", {"free": free, "8": 8, "far": far}[touched])
            tell(lambda: acl.SynchronizeStream(stream))
            tell(lambda: acl.SynchronizeStream(stream))
            tell(lambda: acl.malloc(8))
            tell(lambda: acl.ResetDevice(0))
            acl.SetDevice(0)
            address = acl.put(np.arange(3))
            acl.call(None, "add", address, 3, 1)
            acl.SynchronizeStream(None)
            print(acl.get(address, np.arange(3)))
    """
    printed = check(code).splitlines()
    fault = "returned 507035: device 0: read ended in Segmentation fault: it touched "
    for i, place in enumerate(
        ("memory that was freed: 0 bytes into the 64 bytes", "an address that is not the device's", "8128 bytes behind")
    ):
        first, second, allocation, *after = printed[5 * i : 5 * i + 5]
        assert first == second
        assert fault + place in first
        assert fault + place in allocation
        assert after == ["fine", "[1 2 3]"]


def test_killed_device_process():
    code = """
        told = CFUNCTYPE(None, c_void_p)(
            lambda info: print("told", acl.library.aclrtGetErrorCodeFromExceptionInfo(c_void_p(info)))
        )
        acl.SetExceptionInfoCallback(told)
        stream, event = acl.stream(), acl.event()
        acl.call(stream, "kill")
        acl.RecordEvent(event, stream)
        tell(lambda: acl.SynchronizeStream(stream))
        tell(lambda: acl.SynchronizeStream(stream))
        tell(lambda: acl.event_status(event))
        tell(lambda: acl.call(stream, "sleep", 1))
        tell(acl.stream)
        tell(lambda: acl.DestroyStream(stream))
    """
    printed = check(code)
    assert printed.count("507010: device 0: its process was killed by signal 9") == 5
    assert printed.splitlines()[-1] == "fine"
    assert printed.splitlines()[0] == "told 507010"
    assert printed.count("told") == 1


def test_device_process_that_cannot_start():
    for python, text in (("/nowhere/python", "cannot be started"), ("/bin/false", "ended with status 1")):
        code = "acl.malloc(8)"
        done = program(code, MS_ASCEND_EMULATED_PYTHON=python)
        assert done.returncode == 1
        assert text in done.stderr


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("DEVICES", "99", "must be a number from 1 to 16, got 99"),
        ("MEMORY", "much", "must be a number of bytes from 1 MiB to 512 GiB, got much"),
        ("CHIP", "soc=Ascend910B2;cubes=1", "the key `cubes` is unknown"),
        ("CHIP", "cube=few", "`cube=few` is not a key, `=` and a number"),
    ],
)
def test_wrong_settings(name: str, value: str, text: str):
    done = program("", **{f"MS_ASCEND_EMULATED_{name}": value})
    assert text in done.stderr


def test_killed_program_leaves_nothing():
    code = """
        acl.call(acl.stream(), "sleep", 60000)
        pids = subprocess.run(["ps", "-o", "pid=", "--ppid", str(os.getpid())], capture_output=True, text=True)
        print(acl.pid(), flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    """
    pid = int(check(code, status=-9))
    await_end(pid)
    assert not [name for name in os.listdir("/dev/shm") if "ascend" in name]


def test_program_that_ends_ends_its_device():
    for end in ("", "os._exit(0)"):
        await_end(int(check(f"acl.malloc(8); print(acl.pid(), flush=True)\n{end}")))


def test_interrupted_program():
    # Ctrl-C goes to the group of processes: the device's is not in it, and ends with the program. Shells start what is
    # in the background deaf to it.
    code = """
        signal.signal(signal.SIGINT, signal.default_int_handler)
        stream = acl.stream()
        acl.call(stream, "sleep", 500)
        acl.malloc(8)
        print(acl.pid(), flush=True)
        os.setpgid(0, 0)
        try:
            os.killpg(os.getpid(), signal.SIGINT)
            time.sleep(60)
        except KeyboardInterrupt:
            acl.SynchronizeStream(stream)
            print("interrupted")
    """
    lines = check(code, "interrupted").split()
    await_end(int(lines[0]))


def test_forked_process():
    code = """
        address, stream = acl.put(np.arange(3)), acl.stream()
        acl.call(stream, "sleep", 100)
        child = os.fork()
        if child == 0:
            tell(lambda: acl.SetDevice(0))
            tell(lambda: acl.get(address, np.arange(3)))
            tell(lambda: acl.call(stream, "add", address, 3, 1))
            tell(lambda: acl.DestroyStream(stream))
            sys.stdout.flush()
            os._exit(0)
        os.waitpid(child, 0)
        print(acl.get(address, np.arange(3)))
    """
    printed = check(code, "[0 1 2]")
    assert printed.count("cannot be used in a process that was forked") == 3
    assert "fine" in printed  # what is destroyed is gone


def test_fork_does_not_keep_the_device():
    code = """
        acl.malloc(8)
        device, child = acl.pid(), os.fork()
        if child == 0:
            os.close(1)
            os.close(2)
            while True:
                signal.pause()
        print(device, child, flush=True)
        os._exit(0)
    """
    device, child = map(int, check(code).split())
    try:
        await_end(device)
        assert is_running(child)
    finally:
        os.kill(child, signal.SIGKILL)


def test_two_programs_at_once():
    code = """
        address = acl.put(np.full(3, VALUE))
        acl.call(None, "sleep", 100)
        acl.call(None, "add", address, 3, VALUE)
        acl.SynchronizeStream(None)
        print(address, acl.get(address, np.arange(3)))
    """
    with ThreadPoolExecutor() as threads:
        outputs = list(threads.map(check, (code.replace("VALUE", str(value)) for value in (10, 20))))
    assert [text.split("[")[1] for text in outputs] == ["20 20 20]\n", "40 40 40]\n"]


def test_several_devices():
    code = """
        x = np.arange(1000)
        first = acl.put(x)
        event, stream = acl.event(), acl.stream()
        acl.call(stream, "sleep", 100)
        acl.call(stream, "add", first, 1000, 1)
        acl.RecordEvent(event, stream)
        acl.SetDevice(1)
        second, other = acl.malloc(x.nbytes), acl.stream()
        acl.StreamWaitEvent(other, event)  # of the other device
        tell(lambda: acl.copy(second, first, x.nbytes, DEVICE_TO_DEVICE, other))
        acl.DeviceEnablePeerAccess(0, 0)
        acl.copy(second, first, x.nbytes, DEVICE_TO_DEVICE, other)
        acl.SynchronizeStream(other)
        print((acl.get(second, x) == x + 1).all(), first // 2**40 + 1 == second // 2**40)
        acl.ResetDevice(1)
        tell(lambda: acl.get(second, x))
        print((acl.get(first, x) == x + 1).all(), acl.device_count())
        tell(lambda: acl.SetDevice(2))
    """
    printed = check(
        code,
        "call aclrtDeviceEnablePeerAccess",
        "True True",
        "memory that was freed",
        "True 2",
        "device 2 is not there: there are 2 devices",
        MS_ASCEND_EMULATED_DEVICES="2",
    )
    assert "fine" not in printed


def test_read_of_memory_that_nobody_wrote():
    code = """
        x = np.arange(100, dtype=np.uint8)
        first, second, stream = acl.malloc(100), acl.malloc(100), acl.stream()
        acl.copy(first, x, 60)
        tell(lambda: acl.get(first, x))
        tell(lambda: acl.get(first, x[:60]))
        acl.copy(second, first, 100, DEVICE_TO_DEVICE, stream)
        acl.SynchronizeStream(stream)
        tell(lambda: acl.get(second, x[:61]))
        acl.MemsetAsync(c_void_p(second + 60), c_size_t(40), 0, c_size_t(40), stream)
        acl.SynchronizeStream(stream)
        tell(lambda: acl.get(second, x))
        acl.free(second)
        tell(lambda: acl.get(acl.malloc(100), x))
    """
    printed = check(code, "which nobody has written: it is 60 bytes into the 100 bytes", MS_ASCEND_EMULATED_CHECK="1")
    assert [line == "fine" for line in printed.splitlines()] == [False, True, False, True, False]


def test_operator_reads_memory_that_nobody_wrote():
    code = """
        from tests.device.device_calls import vector_call
        x = np.arange(6, dtype=np.float32)
        written, empty, out = acl.put(x), acl.malloc(24), acl.malloc(24)
        def run(name, *addresses):
            data = vector_call(name, 6, *addresses)
            acl.MsAscendDeviceCall(None, data, c_size_t(len(data)))
            acl.SynchronizeStream(None)
        tell(lambda: run("aclnnSqrt", written, out))
        tell(lambda: run("aclnnInplaceOne", acl.malloc(24)))
        tell(lambda: run("aclnnSqrt", empty, out))
        print(acl.get(out, x) ** 2)
    """
    printed = check(
        code,
        "aclnnSqrt: it reads device memory that nobody has written: 6 of the 6 elements of a tensor of shape (6,)",
        MS_ASCEND_EMULATED_CHECK="1",
        MS_ASCEND_EMULATED_OPERATORS="",
    )
    assert printed.splitlines()[:2] == ["fine", "fine"]  # what is only overwritten is not read


def test_runtime_can_be_begun_again():
    code = """
        from mmap import mmap
        for _ in range(2):
            address = acl.put(np.arange(3))
            acl.call(None, "sleep", 50)
            acl.call(None, "add", address, 3, 1)
            there, pinned = np.arange(3), c_void_p()
            acl.MallocHost(byref(pinned), c_size_t(24))
            acl.copy(pinned.value, address, 24, DEVICE_TO_HOST, acl.stream())
            stream = acl.stream()
            memory = mmap(-1, 4096)
            x = np.frombuffer(memory, np.int64)
            x[:] = 7
            acl.HostRegister(c_void_p(x.ctypes.data), c_uint64(4096), 0, byref(c_void_p()))
            acl.aclFinalize()
            assert (x == 7).all()
            tell(lambda: acl.SynchronizeStream(stream))
            acl.aclInit(None)
            acl.SetDevice(0)
        tell(lambda: acl.aclInit(None))
    """
    printed = check(code, "returned 100002: aclInit was called before")
    assert printed.count("the stream was not created, or is destroyed") == 2
