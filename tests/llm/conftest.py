import pytest

# What the extra brings, and what writes the files of the tests.
for package in ("gguf", "jinja2", "ml_dtypes", "safetensors", "tokenizers"):
    pytest.importorskip(package, reason="of the extra `llm`, or of `test`")
