"""Generates with a network of MindFormers as it runs on an NPU: cache in pages, flash attention, fused operators.

    python -m ms_ascend_ops run generate.py NAME FOLDER [graph | pynative]      # on a CPU, in float32
    python -m ms_ascend_ops emulate generate.py NAME FOLDER [graph | pynative]  # on an emulated NPU, in float16

FOLDER is what networks.py wrote. Nothing here knows of ms_ascend_ops: on a machine with an NPU, run it with `python`.
"""

from __future__ import annotations

import json
import os
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import mindspore as ms
from networks import NETWORKS, NEW_TOKENS, PROMPTS, SIZES


def dtype() -> str:
    """Choose what networks compute with: MindSpore's ApplyRotaryPosEmb takes no float32 on an NPU."""
    return "float16" if ms.get_context("device_target") == "Ascend" else "float32"


def network(name: str, folder: Path, mode: int) -> Any:
    """Return the network with its weights."""
    if name == "llama":
        from llama import llama, load

        net = llama(npu=True, use_past=True, dtype=dtype())
        load(net, folder)
        return net
    from mindformers import build_context

    build_context(
        {
            "use_legacy": False,
            "run_mode": "predict",
            "context": {"mode": mode, "device_target": ms.get_context("device_target")},
            "parallel": {},
        }
    )
    _, (module, stem), extra = NETWORKS[name]
    config = getattr(import_module(f"{module}.configuration_{name}"), f"{stem}Config")(
        **(SIZES | extra),
        seq_length=64,
        batch_size=1,
        block_size=16,
        num_blocks=16,
        eos_token_id=-1,
        use_flash_attention=True,
        compute_dtype=dtype(),
        params_dtype=dtype(),
        layernorm_compute_dtype="float32",
        softmax_compute_dtype="float32",
        rotary_dtype=dtype(),
        router_dense_type="float32",
    )
    net = getattr(import_module(f"{module}.modeling_{name}"), f"{stem}ForCausalLM")(config)
    net.load_weights(str(folder))
    net.hard_mask = ms.Tensor([[0.0]], getattr(ms, dtype()))  # MindFormers makes it bfloat16 for every network
    return net


def main() -> None:
    name, folder = sys.argv[1], Path(sys.argv[2])
    mode = ms.PYNATIVE_MODE if sys.argv[3:] == ["pynative"] else ms.GRAPH_MODE
    os.environ["RUN_MODE"] = "predict"
    ms.set_context(mode=mode)
    if dtype() == "float16":  # MindSpore's fused kernels for inference, which MindFormers' own scripts ask for
        ms.set_context(jit_config={"jit_level": "O0", "infer_boost": "on"})
    net = network(name, folder, mode)
    net.set_train(False)
    expected = json.loads((folder / "tokens.json").read_text())
    # In float16 two tokens may be as good to rounding: then it is transformers in float32 that chooses the same one.
    for place, prompt in enumerate(PROMPTS):
        net._exec_add_flags = True  # MindFormers leaves a Llama in PyNative mode as it was for the last token
        (made,) = net.generate([prompt], max_new_tokens=NEW_TOKENS, do_sample=False)
        same = [kind for kind in dict.fromkeys((dtype(), "float32")) if made.tolist() == expected[kind][place]]
        known = f"as transformers in {same[0]}" if same else f"NOT AS {expected[dtype()][place]}"
        print(f"{name}: {made.tolist()}", known)
        if not same:
            sys.exit(1)


if __name__ == "__main__":
    main()
