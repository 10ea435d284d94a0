"""Language models in bundles: the exported graph against the decoder in float64, and files that were tampered with."""

import hashlib
import json
import zipfile

import mindspore as ms
import numpy as np
import pytest
from click.testing import CliRunner
from mindspore import Tensor, nn

from ms_ascend_ops import bundle, export_mindir
from ms_ascend_ops.__main__ import main
from ms_ascend_ops.llm import LanguageModel
from ms_ascend_ops.llm.bundle import open_bundle, write_bundle
from ms_ascend_ops.llm.checkpoints import open_checkpoint
from ms_ascend_ops.llm.executor import Chunk, ProgramExecutor
from ms_ascend_ops.llm.network import load_network
from tests.llm import reference, tiny
from tests.llm.test_network import DTYPES, close, ids, rounded

VALUES = [None, 0, -1, 1e99, "x", [], {}, [1], True, float("nan")]


def exported(folder, config=tiny.CONFIG, dtype="float32", context=96, cache_dtype=None):
    weights = tiny.random_weights(config)
    checkpoint = open_checkpoint(tiny.write_directory(folder / "m", config, weights))
    write_bundle(
        checkpoint, folder / "m.msbundle", np.dtype(DTYPES[dtype]), True, context, 160, cache_dtype=cache_dtype
    )
    return folder / "m.msbundle", tiny.doubles(weights)


@pytest.fixture(scope="module")
def llama(tmp_path_factory):
    return exported(tmp_path_factory.mktemp("llama"))


def rewritten(source, target, **changes):
    """A bundle with other files, that its manifest lists as they are."""
    with zipfile.ZipFile(source) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    manifest = json.loads(files.pop("manifest.json"))
    for name, data in changes.items():
        name = name.replace("__", "/").replace("_json", ".json")  # noqa: PLW2901
        if data is None:
            del files[name]
        else:
            files[name] = data
    manifest["files"] = {
        name: {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()} for name, data in files.items()
    }
    with zipfile.ZipFile(target, "w", zipfile.ZIP_STORED) as archive:
        for name, data in {**files, "manifest.json": json.dumps(manifest).encode()}.items():
            archive.writestr(name, data)
    return target


def about(path):
    with zipfile.ZipFile(path) as archive:
        return json.loads(archive.read("llm/config.json"))


@pytest.mark.parametrize(
    ("architecture", "dtype"),
    [("llama", "float16"), ("mistral", "float32"), ("qwen2", "float32"), ("qwen3", "float32")],
)
def test_logits(tmp_path, architecture, dtype):
    """A prompt in pieces, and single tokens behind it, in blocks that do not follow each other."""
    config = tiny.VARIANTS[architecture]
    path, weights = exported(tmp_path, config, dtype)
    check(open_bundle(path).executor, config, weights, dtype)


@pytest.mark.parametrize(("architecture", "dtype"), [("llama", "float16"), ("qwen3", "bfloat16")])
def test_a_cache_of_another_type(tmp_path, architecture, dtype):
    config = tiny.VARIANTS[architecture]
    path, weights = exported(tmp_path, config, cache_dtype=DTYPES[dtype])
    floats, _ = exported(tmp_path / "floats", config)
    assert path.stat().st_size < floats.stat().st_size
    check(open_bundle(path).executor, config, weights, dtype)


def test_logits_of_one_file(llama):
    path, weights = llama
    executor = open_bundle(path).executor
    check(executor, tiny.CONFIG, weights, "float32")
    tokens = ids(9)
    close(executor.step([Chunk(tokens, 0, [3])], every_row=True), reference.logits(tiny.CONFIG, weights, tokens))


def check(executor, config, weights, dtype):
    tokens = ids(70)
    expected = reference.logits(config, weights, tokens)
    for first, end in ((0, 40), (40, 41), (41, 64), (64, 70)):
        logits = executor.step([Chunk(tokens[first:end], first, [4, 0, 2])])
        close(logits, expected[[end - 1]], dtype)
    executor.step([Chunk(tokens[:20], 0, [1])])
    # The last token again, beside another sequence's next.
    both = executor.step([Chunk(tokens[69:70], 69, [4, 0, 2]), Chunk(tokens[20:21], 20, [1])])
    close(both, expected[[69, 20]], dtype)
    assert both.dtype == np.float32


def test_weights_that_stay_quantized(tmp_path):
    checkpoint = open_checkpoint(tiny.write_gguf(tmp_path / "m.gguf", kind="Q4_0"))
    packed, rounding = (tmp_path / f"{name}.msbundle" for name in ("packed", "rounding"))
    write_bundle(checkpoint, packed, np.dtype(np.float32), True, 64, 64, activations="float")
    write_bundle(checkpoint, rounding, np.dtype(np.float32), True, 64, 64)
    floats = tmp_path / "floats.msbundle"
    write_bundle(checkpoint, floats, np.dtype(np.float32), False, 64, 64)
    assert packed.stat().st_size < floats.stat().st_size
    weights = tiny.doubles({name: rounded(checkpoint.weight(name)) for name in checkpoint.shapes})
    tokens = ids(20)
    expected = reference.logits(tiny.CONFIG, weights, tokens)[-1:]
    for path in (packed, floats):
        close(open_bundle(path).executor.step([Chunk(tokens, 0, [1])]), expected)
    # Single tokens are rounded, as the kernels round them.
    runs = open_bundle(rounding).executor
    kernels = ProgramExecutor(load_network(checkpoint, quantized=True, quantize_x="int8"), 2, 64)
    for executor in (runs, kernels):
        executor.step([Chunk(tokens[:19], 0, [1])])
    ours, theirs = (executor.step([Chunk(tokens[19:], 19, [1])]) for executor in (runs, kernels))
    # A sum that is rounded otherwise may be a step of an activation, 1/127 of the largest.
    assert np.abs(ours - theirs).max() < 0.02 * np.abs(theirs).max()


def test_bfloat16_is_for_npus(tmp_path):
    """In a graph on a CPU, MindSpore has neither Reshape nor Gather of it."""
    checkpoint = open_checkpoint(tiny.write_directory(tmp_path / "m"))
    arguments = (checkpoint, tmp_path / "m.msbundle", np.dtype(DTYPES["bfloat16"]), True, 64, 64)
    with pytest.raises(ValueError, match="a bundle in bfloat16 needs the chip of an NPU"):
        write_bundle(*arguments)
    path = write_bundle(*arguments, chip="ascend910b")
    with pytest.raises(RuntimeError, match="is for the chip ascend910b, and this machine runs on cpu"):
        LanguageModel.from_file(path)


def test_model(llama):
    path, weights = llama
    model = LanguageModel.from_file(path)
    prompt = model.tokenizer.encode("hello world")
    assert model.generate("hello world", 8).tokens == tuple(reference.greedy(tiny.CONFIG, weights, prompt, 8))
    requests = [model.request(text, 6) for text in ("hello", "world, hello", "or")]
    for request in requests:
        model.scheduler.submit(request)
    model.scheduler.run()
    for request in requests:
        assert request.tokens == reference.greedy(tiny.CONFIG, weights, request.prompt, 6)
    messages = [{"role": "user", "content": "hello"}]
    assert model.chat_tokens(messages) == tiny.backend().encode(model.template.render(messages)).ids
    assert LanguageModel.from_file(path, context=40).executor.context == 40
    with pytest.raises(ValueError, match=r"m\.msbundle: context must be 2 to 96, as exported, got 97"):
        LanguageModel.from_file(path, context=97)
    with pytest.raises(ValueError, match=r"its cache has room for 160 tokens, not for 161"):
        LanguageModel.from_file(path, cache_tokens=161)


def test_other_bundles(tmp_path):
    file = export_mindir(nn.ReLU(), Tensor(np.zeros((2, 2)), ms.float32), path=tmp_path / "relu")
    path = bundle(file, tmp_path / "relu")
    with pytest.raises(ValueError, match=r"none of a language model: llm/config\.json is missing"):
        LanguageModel.from_file(path)
    (tmp_path / "a.zip").write_bytes(b"PK\3\4 and no more")
    with pytest.raises(ValueError, match=r"is not a bundle, or it is cut short"):
        LanguageModel.from_file(tmp_path / "a.zip")


def test_a_graph_that_is_none_of_a_language_model(llama, tmp_path):
    file = export_mindir(nn.ReLU(), Tensor(np.zeros((2, 2)), ms.float32), path=tmp_path / "relu")
    with zipfile.ZipFile(llama[0]) as archive:
        names = [name for name in archive.namelist() if name.startswith("llm/")]
        archive.extractall(tmp_path, names)
    other = bundle(file, tmp_path / "y", extra={name: tmp_path / name for name in names})
    with pytest.raises(ValueError, match="its graph is none of a language model"):
        open_bundle(other)


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("blocks", 6, r"the cache of its graph must have the shape \(6, 32, 2, 16\)"),
        ("blocks", 2, "a context of 96 does not fit 256 and 2 blocks"),
        ("context", 95, r"the angles of its graph must have the shape \(95, 8\)"),
        ("context", 64, "of another context"),
        ("context", 1000, "does not fit 256"),
        ("format", 1, "its format is 1, not 2: write it again by llm convert"),
        ("text", {"named": {}, "around_chats": True, "anchor": 999}, "anchor must be >= 0 and < 264, got 999"),
        ("text", {"named": {"bos_token": 1}, "around_chats": True, "anchor": None}, "named must be a map of texts"),
    ],
)
def test_what_does_not_fit_the_graph(llama, tmp_path, key, value, message):
    """The kernels write where the file says: a cache that is smaller than it says would be written past."""
    data = json.dumps(about(llama[0]) | {key: value}).encode()
    with pytest.raises(ValueError, match=message) as raised:
        open_bundle(rewritten(llama[0], tmp_path / "x.msbundle", llm__config_json=data))
    assert str(tmp_path / "x.msbundle") in str(raised.value)


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_values_of_the_configuration(llama, tmp_path, value):
    known = about(llama[0])
    changed = [known | {key: value} for key in known]
    keys = ("layers", "heads", "end_tokens", "epsilon", "rope_scaling", "vocabulary")
    changed += [known | {"config": known["config"] | {key: value}} for key in keys]
    for index, data in enumerate([*changed, value]):
        path = rewritten(llama[0], tmp_path / f"{index}.msbundle", llm__config_json=json.dumps(data).encode())
        try:
            open_bundle(path)
        except ValueError as error:
            assert str(path) in str(error)  # noqa: PT017 - any other exception fails
            assert "\n" not in str(error)  # noqa: PT017
        path.unlink()


def test_damaged_tokenizer(llama, tmp_path):
    path = rewritten(llama[0], tmp_path / "x.msbundle", llm__tokenizer_json=b"{}")
    with pytest.raises(ValueError, match=r"x\.msbundle: the tokenizer cannot be made"):
        open_bundle(path)
    path = rewritten(llama[0], tmp_path / "x.msbundle", llm__tokenizer_json=None)
    with pytest.raises(ValueError, match=r"x\.msbundle: the file is missing; it holds the tokenizer"):
        open_bundle(path)


def test_changed_after_it_was_made(llama, tmp_path):
    data = bytearray(llama[0].read_bytes())
    data[data.index(b'"around_chats"') + 3] ^= 1
    (tmp_path / "x.msbundle").write_bytes(data)
    with pytest.raises(ValueError, match=r"was changed after the bundle was made|cut short or changed"):
        open_bundle(tmp_path / "x.msbundle")


def run(*arguments):
    return CliRunner().invoke(main, ["llm", *map(str, arguments)], catch_exceptions=False)


def test_commands(tmp_path):
    model = tiny.write_directory(tmp_path / "m")
    target = tmp_path / "out.msbundle"
    done = run("convert", model, target, "--context", 64, "--cache-tokens", 100, "--dtype", "float32")
    assert done.exit_code == 0, done.output
    assert (about(target)["blocks"], about(target)["activations"]) == (4, "int8")
    text = run("generate", model, "-p", "hello", "-n", 5).stdout
    assert run("generate", target, "-p", "hello", "-n", 5).stdout == text
    again = run("convert", model, target)
    assert (again.exit_code, again.stderr) == (
        1, f"Error: {target}: it is there already; delete it, or name another file\n"
    )  # fmt: skip
    for option, value in (
        ("--dtype", "float16"), ("--weights", "float"), ("--engine", "kernels"), ("--activations", "float")
    ):  # fmt: skip
        done = run("generate", target, "-p", "hello", option, value)
        assert done.exit_code == 2
        assert f"{option} is not for a bundle: it is as it was exported" in done.stderr
    done = run("convert", model, tmp_path / "directory", "--context", 64)
    assert done.exit_code == 2
    assert "--context is for a bundle, whose name ends with .msbundle" in done.stderr
    done = run("convert", model, tmp_path / "long.msbundle", "--context", 999)
    assert done.exit_code == 1
    assert "context must be 2 to 256, which the model was made for, got 999" in done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m", "out.msbundle"]


def test_nothing_half_written(tmp_path, monkeypatch):
    model = tiny.write_directory(tmp_path / "m")

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("ms_ascend_ops.export.files.bundle._manifest", full)
    done = run("convert", model, tmp_path / "out.msbundle")
    assert done.exit_code == 1
    assert [path.name for path in tmp_path.iterdir()] == ["m"]
