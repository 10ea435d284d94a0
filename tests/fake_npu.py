"""A machine that looks like one with an NPU to Python: a device target, CANN's folders, and a vendor package.

Nothing runs on it; what MindSpore builds for an Ascend primitive can be looked at.
"""

import json
import sys
from pathlib import Path

import mindspore as ms
import pytest
from codegen.ascend.names import snake
from mindspore import context
from mindspore.ops.operations import _custom_ops_utils

from ms_ascend_ops import ascend, custom, registry
from ms_ascend_ops.version import __version__

SOC = "ascend910b"


class _Context:
    """MindSpore's context object, asked for the chip only."""

    @staticmethod
    def get_instance():
        return _Context()

    def get_ascend_soc_version(self):
        return SOC


def header(signature):
    """The header that CANN generates for an operator, as far as its function goes."""
    # An input that is an output of the same name, too, is one parameter, which is not const.
    changed = {tensor.name for tensor in signature.inputs} & {tensor.name for tensor in signature.cann_outputs}
    parameters = [
        f"aclTensor *{tensor.name}Ref" if tensor.name in changed else f"const aclTensor *{tensor.name}"
        for tensor in signature.inputs
    ]
    parameters += [f"{registry.ACLNN_TYPES[attribute.type]} {attribute.name}" for attribute in signature.attributes]
    parameters += [
        f"const aclTensor *{tensor.name}Out" for tensor in signature.cann_outputs if tensor.name not in changed
    ]
    parameters += ["uint64_t *workspaceSize", "aclOpExecutor **executor"]
    joined = ",\n    ".join(parameters)
    return f"""__attribute__((visibility("default")))
aclnnStatus aclnn{signature.cann_type}GetWorkspaceSize(
    {joined});
"""


def install(folder, signatures, version=__version__, soc=SOC):
    """Write a vendor package with these operators."""
    config = folder / f"op_impl/ai_core/tbe/config/{soc}"
    library = folder / "op_impl/ai_core/tbe/op_tiling/lib/linux/aarch64"
    include = folder / "op_api/include"
    for path in (config, library, include):
        path.mkdir(parents=True, exist_ok=True)
    (config / f"aic-{soc}-ops-info.json").write_text(json.dumps({s.cann_type: {} for s in signatures}))
    texts = b"\0".join(f"{s.cann_type}={version};".encode() for s in signatures)
    (library / "libcust_opmaster_rt2.0.so").write_bytes(b"\x7fELF MsAscendOps\0" + texts + b"\0end")
    for signature in signatures:
        (include / f"aclnn_{snake(signature.cann_type)}.h").write_text(header(signature))


def all_signatures():
    return [signature for name in registry.names() for signature in registry.op_spec(name).signatures]


@pytest.fixture
def npu(tmp_path, monkeypatch):
    """The folder of the vendor package, which is empty, on a machine whose device target is Ascend."""

    def get_context(name):
        return "Ascend" if name == "device_target" else original(name)

    original = context.get_context
    monkeypatch.setattr(context, "get_context", get_context)
    monkeypatch.setattr(ms, "get_context", get_context)
    monkeypatch.setattr(custom, "device_target", lambda: "Ascend")
    monkeypatch.setattr(_custom_ops_utils, "MSContext", _Context)
    monkeypatch.setattr(custom, "_soc", lambda: SOC)
    cann, package = tmp_path / "cann", tmp_path / "package"
    (cann / "opp/vendors").mkdir(parents=True)
    package.mkdir()
    monkeypatch.setenv("ASCEND_OPP_PATH", str(cann / "opp"))
    monkeypatch.setenv("ASCEND_CUSTOM_OPP_PATH", str(package))
    monkeypatch.setenv("MS_COMPILER_CACHE_PATH", str(tmp_path / "kernel_meta"))
    monkeypatch.delenv("MS_ASCEND_OPS_PREFER", raising=False)
    monkeypatch.setattr(ascend, "_preferences", {})
    ascend._versions.cache_clear()
    _forget_primitives()
    return Path(package)


def _forget_primitives():
    """Those of another test name files in its folder: what it made for an Ascend is made anew."""
    for module in [module for name, module in sys.modules.items() if name.startswith("ms_ascend_ops.ops.")]:
        for value in vars(module).values():
            if isinstance(value, custom.Selector):
                value._made.cache_clear()
