"""Streams, events and callbacks of libascendcl, without MindSpore: what a C program that calls ACL sees."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from ctypes import CFUNCTYPE, byref, c_int32, c_size_t, c_uint32, c_uint64, c_void_p

import numpy as np
import pytest

from tests.device.acl import DEVICE_TO_DEVICE, DEVICE_TO_HOST, HOST_TO_DEVICE, HOST_TO_HOST, Acl, AclError
from tests.device.device_calls import kernel_call

CALLBACK = CFUNCTYPE(None, c_void_p)
SYNC, TIME_LINE = 1, 8  # ACL_EVENT_SYNC, ACL_EVENT_TIME_LINE
NOT_READY = 1  # ACL_STREAM_STATUS_NOT_READY


def later(acl: Acl, do: Callable[[], None]) -> None:
    """Do something in another thread, while this one waits, as far as can be told."""
    context = c_void_p()
    acl.GetCurrentContext(byref(context))
    threading.Timer(0.1, lambda: (acl.SetCurrentContext(context), do())).start()


def test_stream_keeps_its_order(acl: Acl):
    x = np.arange(1000)
    first, second, stream = acl.put(x), acl.malloc(x.nbytes), acl.stream()
    acl.copy(second, first, x.nbytes, DEVICE_TO_DEVICE, stream)
    acl.MemsetAsync(c_void_p(first), c_size_t(x.nbytes), 0, c_size_t(x.nbytes), stream)
    for value in range(100):
        acl.call(stream, "add", second, 1000, value)
    there = np.full_like(x, -1)
    acl.copy(there, second, x.nbytes, DEVICE_TO_HOST, stream)
    acl.SynchronizeStream(stream)
    np.testing.assert_array_equal(there, x + sum(range(100)))
    np.testing.assert_array_equal(acl.get(first, x), np.zeros_like(x))
    acl.DestroyStream(stream)


def test_stream_is_asynchronous(acl: Acl):
    stream, x = acl.stream(), np.zeros(1, np.int64)
    address = acl.put(x)
    go_on = acl.hold(stream)
    acl.call(stream, "add", address, 1, 5)
    assert acl.stream_status(stream) == NOT_READY
    # A synchronous copy does not wait for streams.
    assert acl.get(address, x)[0] == 0
    with pytest.raises(AclError, match="not finished within 20 ms") as error:
        acl.SynchronizeStreamWithTimeout(stream, 20)
    assert error.value.code == 507046
    go_on()
    acl.SynchronizeStream(stream)
    assert acl.stream_status(stream) == 0
    assert acl.get(address, x)[0] == 5


def test_copy_of_pageable_memory_has_happened_when_it_returns(acl: Acl):
    # That of aclrtMallocHost is pinned, and waits for its turn in the stream.
    stream, x = acl.stream(), np.arange(4)
    address, pinned = acl.put(np.zeros(4, np.int64)), c_void_p()
    acl.MallocHost(byref(pinned), c_size_t(32))
    go_on = acl.hold(stream)
    acl.copy(pinned.value, address, 32, DEVICE_TO_HOST, stream)
    assert acl.stream_status(stream) == NOT_READY
    later(acl, go_on)
    acl.copy(address, x, 32, HOST_TO_DEVICE, stream)
    x[:] = 7
    acl.SynchronizeStream(stream)
    np.testing.assert_array_equal(acl.get(address, x), np.arange(4))
    acl.FreeHost(pinned)
    with pytest.raises(AclError, match="is freed"):
        acl.FreeHost(pinned)


def test_more_commands_than_a_ring_holds(acl: Acl):
    stream, address = acl.stream(), acl.put(np.zeros(1, np.int64))
    acl.call(stream, "sleep", 50)
    for _ in range(4000):
        acl.call(stream, "add", address, 1, 1)
    acl.SynchronizeStream(stream)
    assert acl.get(address, np.zeros(1, np.int64))[0] == 4000


def test_call_that_is_longer_than_a_ring(acl: Acl):
    stream, before = acl.stream(), acl.free_bytes()
    for _ in range(3):
        acl.call(stream, "count", *range(20000))
        acl.SynchronizeStream(stream)
    acl.DestroyStream(stream)
    assert acl.free_bytes() == before


def test_event_orders_streams(acl: Acl):
    first, second, event = acl.stream(), acl.stream(), acl.event()
    address = acl.put(np.zeros(1, np.int64))
    go_on = acl.hold(first)
    acl.call(first, "add", address, 1, 3)
    acl.RecordEvent(event, first)
    acl.StreamWaitEvent(second, event)
    assert acl.event_status(event) == 0
    later(acl, go_on)
    there = np.zeros(1, np.int64)
    acl.copy(there, address, 8, DEVICE_TO_HOST, second)
    acl.SynchronizeStream(second)
    assert there[0] == 3
    assert acl.event_status(event) == 1


def test_wait_is_for_the_record_before_it(acl: Acl):
    # Another record, in a stream that is done at once, does not let the waiting stream go.
    slow, quick, waiting, event = acl.stream(), acl.stream(), acl.stream(), acl.event()
    address, there = acl.put(np.zeros(1, np.int64)), np.zeros(1, np.int64)
    go_on = acl.hold(slow)
    acl.call(slow, "add", address, 1, 3)
    acl.RecordEvent(event, slow)
    acl.StreamWaitEvent(waiting, event)
    acl.RecordEvent(event, quick)
    acl.SynchronizeEvent(event)
    assert acl.stream_status(slow) == NOT_READY
    later(acl, go_on)
    acl.copy(there, address, 8, DEVICE_TO_HOST, waiting)
    assert there[0] == 3


def test_elapsed_time(acl: Acl):
    stream, start, end = acl.stream(), acl.event(), acl.event()
    with pytest.raises(AclError, match="was not recorded"):
        acl.elapsed_ms(start, end)
    begin = time.perf_counter()
    acl.RecordEvent(start, stream)
    go_on = acl.hold(stream)
    acl.call(stream, "sleep", 100)
    acl.RecordEvent(end, stream)
    with pytest.raises(AclError, match="has not come to it yet") as error:
        acl.elapsed_ms(start, end)
    assert error.value.code == 107006
    go_on()
    acl.SynchronizeEvent(end)
    assert 99 < acl.elapsed_ms(start, end) < 1e3 * (time.perf_counter() - begin) + 1


def test_event_flags(acl: Acl):
    stream, event, status = acl.stream(), c_void_p(), c_int32()
    acl.CreateEventExWithFlag(byref(event), TIME_LINE)
    assert acl.event_status(event) == 1  # nothing was recorded yet: complete
    with pytest.raises(AclError, match="without ACL_EVENT_SYNC"):
        acl.StreamWaitEvent(stream, event)
    for refused in (lambda: acl.ResetEvent(event, stream), lambda: acl.QueryEvent(event, byref(status))):
        with pytest.raises(AclError, match="aclrtCreateEventExWithFlag") as error:
            refused()
        assert error.value.code == 207000
    acl.DestroyEvent(event)
    with pytest.raises(AclError, match="the event was not created, or is destroyed"):
        acl.RecordEvent(event, stream)
    acl.CreateEventWithFlag(byref(event), SYNC)
    acl.RecordEvent(event, stream)
    acl.SynchronizeEvent(event)
    with pytest.raises(AclError, match="without ACL_EVENT_TIME_LINE"):
        acl.elapsed_ms(event, event)


def test_failure_is_told_once_by_the_next_synchronisation(acl: Acl):
    stream, address = acl.stream(), acl.put(np.zeros(1, np.int64))
    acl.call(stream, "fail", 7)
    acl.call(stream, "add", address, 1, 1)
    with pytest.raises(AclError, match="fail: number 7") as error:
        acl.SynchronizeStream(stream)
    assert error.value.code == 507015
    acl.SynchronizeStream(stream)
    assert acl.get(address, np.zeros(1, np.int64))[0] == 1  # the default: go on


def test_call_that_is_cut_off(acl: Acl):
    stream, data = acl.stream(), kernel_call("Kernel", 1, 2, 3, b"", 0, 0)
    acl.MsAscendDeviceCall(stream, data[:-12], c_size_t(len(data) - 12))
    with pytest.raises(AclError, match="Kernel: call: it ends in the middle of a value") as error:
        acl.SynchronizeStream(stream)
    assert error.value.code == 507015


def test_stop_on_failure_holds_for_the_context(acl: Acl):
    context, before = c_void_p(), c_void_p()
    acl.GetCurrentContext(byref(before))
    acl.CreateContext(byref(context), 0)
    stream, other, address = acl.stream(), acl.stream(), acl.put(np.zeros(1, np.int64))
    acl.SetStreamFailureMode(stream, c_uint64(1))
    try:
        go_on = acl.hold(stream)
        acl.call(stream, "fail", 8)
        acl.call(stream, "add", address, 1, 1)
        go_on()
        for _ in range(2):
            with pytest.raises(AclError, match="fail: number 8"):
                acl.SynchronizeStream(stream)
        with pytest.raises(AclError, match="fail: number 8"):
            acl.call(other, "add", address, 1, 1)
    finally:
        acl.SetCurrentContext(before)
    assert acl.get(address, np.zeros(1, np.int64))[0] == 0
    acl.call(None, "add", address, 1, 2)
    acl.SynchronizeStream(None)
    assert acl.get(address, np.zeros(1, np.int64))[0] == 2


def test_exception_information(acl: Acl):
    names = ("TaskId", "StreamId", "ThreadId", "DeviceId", "ErrorCode")
    seen: list[dict[str, int]] = []

    @CFUNCTYPE(None, c_void_p)
    def told(info: int) -> None:
        seen.append({name: getattr(acl.library, f"aclrtGet{name}FromExceptionInfo")(c_void_p(info)) for name in names})

    stream, number = acl.stream(), c_int32()
    acl.StreamGetId(stream, byref(number))
    acl.SetExceptionInfoCallback(told)
    acl.call(stream, "sleep", 1)
    acl.call(stream, "fail", 9)
    with pytest.raises(AclError):
        acl.SynchronizeStream(stream)
    acl.SetExceptionInfoCallback(None)
    assert len(seen) == 1
    assert {key: seen[0][key] for key in ("TaskId", "StreamId", "DeviceId", "ErrorCode")} == {
        "TaskId": 2,
        "StreamId": number.value,
        "DeviceId": 0,
        "ErrorCode": 507015,
    }


def test_callbacks_run_in_the_thread_that_asked_for_them(acl: Acl):
    stream, order, threads = acl.stream(), [], []
    address = acl.put(np.zeros(1, np.int64))

    @CALLBACK
    def told(_: int) -> None:
        threads.append(threading.get_ident())
        order.append(int(acl.get(address, np.zeros(1, np.int64))[0]))

    with pytest.raises(AclError, match="aclrtSubscribeReport") as error:
        acl.LaunchCallback(told, None, 1, stream)
    assert error.value.code == 107015
    acl.SubscribeReport(c_uint64(threading.get_ident()), stream)
    acl.LaunchCallback(told, None, 1, stream)
    acl.call(stream, "add", address, 1, 5)
    acl.LaunchCallback(told, None, 1, stream)
    with pytest.raises(AclError, match="not finished"):
        acl.SynchronizeStreamWithTimeout(stream, 20)  # the first callback blocks it
    acl.ProcessReport(1000)
    acl.ProcessReport(1000)
    acl.SynchronizeStream(stream)
    assert (order, threads) == ([0, 5], [threading.get_ident()] * 2)
    with pytest.raises(AclError, match="no callback within 20 ms") as error:
        acl.ProcessReport(20)
    assert error.value.code == 507012
    acl.UnSubscribeReport(c_uint64(threading.get_ident()), stream)
    with pytest.raises(AclError) as error:
        acl.ProcessReport(20)
    assert error.value.code == 107012


def test_host_function(acl: Acl):
    stream, seen = acl.stream(), []
    function = CALLBACK(seen.append)
    acl.call(stream, "sleep", 20)
    acl.LaunchHostFunc(stream, function, c_void_p(77))
    acl.SynchronizeStream(stream)
    assert seen == [77]


def test_captured_streams_are_replayed(acl: Acl):
    stream, side, event, model, status = acl.stream(), acl.stream(), acl.event(), c_void_p(), c_int32()
    address = acl.put(np.zeros(2, np.int64))
    acl.aclmdlRICaptureBegin(stream, 0)
    acl.call(stream, "add", address, 1, 1)
    acl.RecordEvent(event, stream)
    acl.StreamWaitEvent(side, event)  # joins
    acl.call(side, "add", address, 2, 10)
    acl.RecordEvent(event, side)
    acl.StreamWaitEvent(stream, event)
    acl.aclmdlRICaptureGetInfo(stream, byref(status), None)
    assert status.value == 1
    with pytest.raises(AclError, match="captured") as error:
        acl.SynchronizeStream(stream)
    assert error.value.code == 107027
    acl.aclmdlRICaptureEnd(stream, byref(model))
    for _ in range(3):
        acl.aclmdlRIExecuteAsync(model, stream)
    acl.SynchronizeStream(stream)
    assert acl.get(address, np.zeros(2, np.int64)).tolist() == [33, 30]
    acl.aclmdlRIDestroy(model)
    with pytest.raises(AclError, match="destroyed"):
        acl.aclmdlRIExecuteAsync(model, stream)


def test_abort_drops_what_has_not_begun(acl: Acl):
    stream, address = acl.stream(), acl.put(np.zeros(1, np.int64))
    go_on = acl.hold(stream)
    acl.call(stream, "add", address, 1, 1)
    with pytest.raises(AclError, match="a task still runs after 20 ms"):
        acl.DeviceTaskAbort(0, 20)
    go_on()
    acl.StreamAbort(stream)
    with pytest.raises(AclError, match="dropped") as error:
        acl.SynchronizeStream(stream)
    assert error.value.code == 107023
    acl.DeviceTaskAbort(0, 1000)
    assert acl.get(address, np.zeros(1, np.int64))[0] == 0


@pytest.mark.parametrize("kind", ["stream", "context"])
def test_handles_that_are_not_good(acl: Acl, kind: str):
    stream = acl.stream()
    acl.DestroyStream(stream)
    for handle in (stream, c_void_p(8), c_void_p(2**47)):
        with pytest.raises(AclError, match="not created, or is destroyed"):
            acl.SynchronizeStream(handle) if kind == "stream" else acl.SetCurrentContext(handle)


def test_thread_without_context(acl: Acl):
    codes = []

    def ask() -> None:
        for device in (None, 0):
            if device is not None:
                acl.SetDevice(device)
            codes.append(acl.library.aclrtSynchronizeStream(None))

    thread = threading.Thread(target=ask)
    thread.start()
    thread.join()
    acl.ResetDevice(0)  # counted: the device stays
    assert codes == [107002, 0]
    acl.SynchronizeStream(None)


def test_options_and_limits(acl: Acl):
    cores = c_uint32()
    acl.GetDeviceResLimit(0, 1, byref(cores))
    assert cores.value == 48
    acl.SetDeviceResLimit(0, 1, 8)
    acl.GetResInCurrentThread(1, byref(cores))
    assert cores.value == 8
    acl.ResetDeviceResLimit(0)
    with pytest.raises(AclError, match="from 1 to 48, got 49"):
        acl.SetDeviceResLimit(0, 1, 49)
    value = c_uint64()
    with pytest.raises(AclError, match="option 3 is not set") as error:
        acl.CtxGetSysParamOpt(3, byref(value))
    assert error.value.code == 107021
    acl.CtxSetSysParamOpt(3, c_uint64(1))
    acl.CtxGetSysParamOpt(3, byref(value))
    assert value.value == 1
    acl.GetSysParamOpt(3, byref(value))  # of the process
    assert value.value == 0
    acl.SetSysParamOpt(3, c_uint64(2))
    acl.GetSysParamOpt(3, byref(value))
    assert value.value == 2
    acl.SetOpExecuteTimeOutV2(c_uint64(1000), byref(value))
    assert value.value == 1000


def test_copy_within_the_host_is_not_asynchronous(acl: Acl):
    x = np.arange(4)
    y = np.zeros_like(x)
    acl.copy(y, x, x.nbytes, HOST_TO_HOST)
    np.testing.assert_array_equal(y, x)
    with pytest.raises(AclError, match="within the host") as error:
        acl.copy(y, x, x.nbytes, HOST_TO_HOST, acl.stream())
    assert error.value.code == 207000


def test_last_error(acl: Acl):
    acl.library.aclrtGetLastError(0)
    assert acl.library.aclrtFree(None) == 100000
    assert acl.library.aclrtPeekAtLastError(0) == 0  # only those of the runtime count
    assert acl.library.aclrtFree(c_void_p(64)) == 107000
    assert b"is not a device's address" in acl.library.aclGetRecentErrMsg()
    assert acl.library.aclGetRecentErrMsg() == b""
    assert acl.library.aclrtPeekAtLastError(0) == 107000
    assert acl.library.aclrtGetLastError(0) == 107000
    assert acl.library.aclrtGetLastError(0) == 0
