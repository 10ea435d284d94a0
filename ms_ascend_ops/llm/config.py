"""What a LLaMA-like network is, whichever file says so."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["ModelConfig", "RopeScaling"]

_MOST_LAYERS = 4096  # a damaged file may say anything


@dataclass(frozen=True)
class RopeScaling:
    """How rotary angles are stretched beyond the context of the first training.

    kind: "linear" divides every position by `factor`; "llama3" divides the low frequencies by it, and blends between
    `low_freq_factor` and `high_freq_factor` turns within `original_context`.
    """

    kind: str
    factor: float = 1.0
    low_freq_factor: float = 1.0
    high_freq_factor: float = 4.0
    original_context: int = 8192

    def check(self, source: str) -> None:
        """Check that the numbers are possible.

        Raises:
            ValueError: they are not; the message begins with `source`.
        """
        for name in ("factor", "low_freq_factor", "high_freq_factor", "original_context"):
            if not 0 < getattr(self, name) < 1e30:
                raise ValueError(f"{source}: {name} of rope_scaling must be > 0 and finite, got {getattr(self, name)}")
        if self.low_freq_factor == self.high_freq_factor:
            raise ValueError(f"{source}: low_freq_factor and high_freq_factor must differ, got {self.low_freq_factor}")


@dataclass(frozen=True)
class ModelConfig:
    """Sizes and constants of a decoder: rotary embedding, RMSNorm, grouped attention, SwiGLU.

    Args:
        layers: decoder layers.
        hidden: elements of a token between layers.
        feed_forward: elements of a token within the feed-forward layer.
        heads: heads of queries.
        key_heads: heads of keys and of values; consecutive heads of queries share one.
        head_size: elements of a head.
        vocabulary: rows of the embedding.
        epsilon: that of RMSNorm.
        rope_base: base of the rotary angles.
        rope_scaling: how the angles are stretched for longer contexts; None: they are not.
        qkv_bias: whether the products before attention have a bias.
        end_tokens: tokens that end a text.
        begin_token: the token that begins one; None: there is none.
    """

    architecture: str  # llama, mistral, qwen2, qwen3
    layers: int
    hidden: int
    feed_forward: int
    heads: int
    key_heads: int
    head_size: int
    vocabulary: int
    context: int  # positions that the network was trained for, or its attention window if that is less
    epsilon: float
    rope_base: float
    rope_scaling: RopeScaling | None = None
    qkv_bias: bool = False
    output_bias: bool = False  # of the product behind attention
    query_key_norm: bool = False  # RMSNorm of every head of queries and keys, before they are turned
    tied_embedding: bool = True  # the embedding is also the last product's weight
    end_tokens: tuple[int, ...] = ()
    begin_token: int | None = None

    def check(self, source: str) -> None:
        """Check that the sizes are possible and fit each other.

        Raises:
            ValueError: they do not; the message begins with `source`.
        """
        for name in ("layers", "hidden", "feed_forward", "heads", "key_heads", "head_size", "vocabulary", "context"):
            if getattr(self, name) < 1:
                raise ValueError(f"{source}: {name} must be at least 1, got {getattr(self, name)}")
        if self.layers > _MOST_LAYERS:
            raise ValueError(f"{source}: layers must be at most {_MOST_LAYERS}, got {self.layers}")
        if self.heads % self.key_heads:
            raise ValueError(
                f"{source}: the number of heads must be a multiple of that of key heads, got {self.heads} and "
                f"{self.key_heads}"
            )
        if self.head_size % 2 or self.head_size > 256:
            raise ValueError(f"{source}: head_size must be even and at most 256, got {self.head_size}")
        for token in (*self.end_tokens, *(() if self.begin_token is None else (self.begin_token,))):
            if not 0 <= token < self.vocabulary:
                raise ValueError(f"{source}: tokens of begin and end must be >= 0 and < {self.vocabulary}, got {token}")
        if not 0 < self.epsilon < 1e30:
            raise ValueError(f"{source}: epsilon must be > 0 and finite, got {self.epsilon}")
        if not 0 < self.rope_base < 1e30:
            raise ValueError(f"{source}: rope_base must be > 0 and finite, got {self.rope_base}")
        if self.rope_scaling is not None:
            self.rope_scaling.check(source)

    @property
    def query_size(self) -> int:
        """Elements of all queries of a token."""
        return self.heads * self.head_size

    @property
    def key_size(self) -> int:
        """Elements of all keys, or all values, of a token."""
        return self.key_heads * self.head_size
