from importlib.util import find_spec

# What the extra brings, and what writes the files of the tests; `build.sh test` installs all of them.
NEEDED = ("gguf", "jinja2", "ml_dtypes", "safetensors", "tokenizers")

collect_ignore_glob = ["test_*.py"] if any(find_spec(name) is None for name in NEEDED) else []
