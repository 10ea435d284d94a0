"""Libraries that look like CANN's to ctypes: they say what an aclnn function got, and a CPU takes the chip's part.

Memory of the CPU poses as that of the device, which no device can. The package is that of the emulated device, but for
the library of its functions: they have the parameters of its headers.
"""

import ctypes
import json
import os
import subprocess

import ml_dtypes
import numpy as np

from ms_ascend_ops import _C, aclnn, ascend, registry
from tests.device.installation import copy, header

SOC = "ascend910b"
ND, BFLOAT16 = 2, 27
DTYPES = {0: np.float32, 1: np.float16, 2: np.int8, 3: np.int32, 9: np.int64, BFLOAT16: ml_dtypes.bfloat16}

COMMON = """#include <cstdint>
#include <string>
#include <vector>
typedef int32_t aclnnStatus;
typedef int aclDataType;
typedef int aclFormat;
struct aclTensor { std::string text; };
struct aclOpExecutor { std::string text; };
"""

META = (
    COMMON
    + """
static int alive;
static std::string Join(const int64_t* values, uint64_t count) {
    std::string text = "[";
    for (uint64_t i = 0; i < count; ++i) { text += (i ? "," : "") + std::to_string(values[i]); }
    return text + "]";
}
extern "C" {
aclTensor* aclCreateTensor(const int64_t* dims, uint64_t rank, aclDataType type, const int64_t* strides, int64_t offset,
                           aclFormat format, const int64_t* storage, uint64_t storageRank, void* data) {
    ++alive;
    auto number = [](const char* name, int64_t value) {
        return std::string(",\\"") + name + "\\":" + std::to_string(value);
    };
    return new aclTensor{"{\\"shape\\":" + Join(dims, rank) + ",\\"strides\\":" + Join(strides, rank) +
        ",\\"storage\\":" + Join(storage, storageRank) + number("dtype", type) + number("offset", offset) +
        number("format", format) + number("address", reinterpret_cast<uintptr_t>(data)) + "}"};
}
aclnnStatus aclDestroyTensor(const aclTensor* tensor) { --alive; delete tensor; return 0; }
int FakeAlive() { return alive; }
}
"""
)

ERRORS = 'extern "C" const char* aclGetRecentErrMsg() { return "EZ9999: the fake refuses"; }\n'

PACKAGE = (
    COMMON
    + """
typedef void (*Launch)(const char* call, uint64_t workspace, uint64_t workspaceSize, uint64_t stream);
static Launch launch;
static aclnnStatus status;
static std::string Text(const aclTensor* t) { return t == nullptr ? "null" : t->text; }
static std::string Text(double v) { return std::to_string(v); }
static std::string Text(int64_t v) { return std::to_string(v); }
static std::string Text(bool v) { return v ? "true" : "false"; }
template <typename... T>
static aclnnStatus Prepare(const char* name, uint64_t* size, aclOpExecutor** executor, T... given) {
    std::string text = std::string("[\\"") + name + "\\"";
    ((text += "," + Text(given)), ...);
    *size = 4096;
    *executor = new aclOpExecutor{text + "]"};
    return status;
}
extern "C" {
void FakeBegin(Launch function, aclnnStatus result) { launch = function; status = result; }
"""
)

LAUNCH = """aclnnStatus aclnn{name}(void* workspace, uint64_t size, aclOpExecutor* executor, void* stream) {{
    launch(executor->text.c_str(), reinterpret_cast<uintptr_t>(workspace), size, reinterpret_cast<uintptr_t>(stream));
    delete executor;
    return 0;
}}
"""

CALLBACK = ctypes.CFUNCTYPE(None, ctypes.c_char_p, ctypes.c_uint64, ctypes.c_uint64, ctypes.c_uint64)


def _functions(signature):
    name = f"aclnnStatus aclnn{signature.cann_type}GetWorkspaceSize("
    declaration = next(line for line in header(signature.cann_type).splitlines() if line.startswith(name)).rstrip(";")
    names = [part.rpartition(" ")[2].lstrip("*") for part in declaration.partition("(")[2].rstrip(")").split(",")]
    given = "".join(f", {name}" for name in names[:-2])
    prepare = f'{declaration} {{ return Prepare("{signature.name}", workspaceSize, executor{given}); }}\n'
    return prepare + LAUNCH.format(name=signature.cann_type)


class FakeCann:
    """An installed toolkit and package in a folder, which the environment names; `calls` lists the launches."""

    def __init__(self, folder, operators):
        signatures = [s for name in operators for s in registry.op_spec(name).signatures]
        package, home = folder / "package", folder / "cann"
        (home / "lib64").mkdir(parents=True)
        copy(package, chips=[SOC], operators=[signature.cann_type for signature in signatures])
        sources = {
            home / "lib64/libnnopbase.so": META,
            home / "lib64/libascendcl.so": ERRORS,
            package / "op_api/lib/libcust_opapi.so": PACKAGE + "".join(map(_functions, signatures)) + "}\n",
        }
        for file, source in sources.items():
            command = ["g++", "-std=c++17", "-O0", "-shared", "-fPIC", "-x", "c++", "-", "-o", str(file)]
            subprocess.run(command, input=source, text=True, check=True)
        self.environment = {
            "ASCEND_HOME_PATH": str(home),
            "ASCEND_OPP_PATH": str(home / "opp"),
            "ASCEND_CUSTOM_OPP_PATH": str(package),
        }
        self.soc, self.calls = SOC, []
        self._meta = ctypes.CDLL(str(home / "lib64/libnnopbase.so"))
        self._package = ctypes.CDLL(str(package / "op_api/lib/libcust_opapi.so"))
        self._callback = CALLBACK(self._launch)
        self.refuse(0)

    def enter(self):
        """In this process."""
        os.environ |= self.environment
        forget()

    @property
    def alive(self):
        """How many descriptions of tensors there are."""
        return self._meta.FakeAlive()

    def refuse(self, status):
        """The status that the functions return from now on; 0: they work."""
        self._package.FakeBegin(self._callback, status)

    def _launch(self, call, workspace, size, stream):
        name, *given = json.loads(call)
        self.calls.append((name, given, (workspace, size), stream))
        signature = registry.signature(name)
        count, attributes = len(signature.inputs), {}
        for spec, value in zip(signature.attributes, given[count:], strict=False):
            attributes[spec.name] = spec.choices[value] if spec.choices else value
        ctypes.memset(workspace, 0xFF, size)  # it is memory
        inputs = [None if tensor is None else _view(tensor) for tensor in given[:count]]
        outputs = [_view(tensor) for tensor in given[count + len(attributes) :]]
        whole = [
            tensor if tensor is None or s.name in signature.writes else np.ascontiguousarray(tensor)
            for tensor, s in zip(inputs, signature.inputs, strict=True)
        ]
        _C.launch(name, whole, outputs, attributes)


def forget():
    """What was found of another toolkit."""
    for function in (aclnn._open, aclnn.function, ascend._versions):
        function.cache_clear()


def _view(tensor):
    """The memory that is described; it may not reach past its storage."""
    assert tensor["format"] == ND
    assert tensor["offset"] == 0
    dtype = np.dtype(DTYPES[tensor["dtype"]])
    (elements,) = tensor["storage"]
    if elements == 0:
        return np.empty(tensor["shape"], dtype)
    memory = (ctypes.c_char * (elements * dtype.itemsize)).from_address(tensor["address"])
    strides = [stride * dtype.itemsize for stride in tensor["strides"]]
    return np.ndarray(tensor["shape"], dtype, memory, 0, strides)
