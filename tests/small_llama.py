"""The LLaMA of `examples/` in a size for tests."""

from examples import llama

__all__ = ["CONFIG"]

CONFIG = llama.LlamaConfig(
    hidden_size=32,
    intermediate_size=48,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    max_position_embeddings=32,
)
