"""Describes a LLaMA-like network, whichever file says so."""

from __future__ import annotations

from dataclasses import dataclass

from ms_ascend_ops.llm.families import FAMILIES, Family

__all__ = ["MOST_LAYERS", "ModelConfig", "RopeScaling"]

MOST_LAYERS = 4096  # a damaged file may say anything
MOST_EXPERTS, MOST_EXPERTS_USED = 1024, 64  # of moe_gating_top_k


@dataclass(frozen=True)
class RopeScaling:
    """Says how rotary angles are stretched beyond the context of the first training.

    kind: "linear" divides every position by `factor`; "llama3" divides the low frequencies by it, and blends between
    `low_freq_factor` and `high_freq_factor` turns within `original_context`; "yarn" does so between `beta_slow` and
    `beta_fast` turns, over whole pairs if `truncate`; "longrope" divides each frequency by its own of `long_factors`,
    or of `short_factors` where a context is no longer than `original_context`.
    attention_factor: of the last two: what cosines and sines are multiplied by.
    """

    kind: str
    factor: float = 1.0
    low_freq_factor: float = 1.0
    high_freq_factor: float = 4.0
    original_context: int = 8192
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    truncate: bool = True
    short_factors: tuple[float, ...] = ()
    long_factors: tuple[float, ...] = ()
    attention_factor: float = 1.0

    def context(self, context: int) -> int:
        """Return the positions that a network is made for, where its file says `context`: YaRN's files may mean
        the original.

        Files of other kinds say the stretched one.
        """
        stretched = self.factor * self.original_context
        return max(context, int(stretched)) if self.kind == "yarn" and 0 < stretched < 1e30 else context

    def check(self, source: str, pairs: int) -> None:
        """Check that the numbers are possible, for heads of so many pairs.

        Raises:
            ValueError: they are not; the message begins with `source`.
        """
        if self.kind not in ("linear", "llama3", "yarn", "longrope"):
            raise ValueError(f"{source}: the kind of rope_scaling is not known: {self.kind!r:.60}")
        names = ("factor", "low_freq_factor", "high_freq_factor", "original_context")
        for name in (*names, "beta_fast", "beta_slow", "attention_factor"):
            if not 0 < getattr(self, name) < 1e30:
                raise ValueError(f"{source}: {name} of rope_scaling must be > 0 and finite, got {getattr(self, name)}")
        if self.low_freq_factor == self.high_freq_factor:
            raise ValueError(f"{source}: low_freq_factor and high_freq_factor must differ, got {self.low_freq_factor}")
        if any(not 0 < factor < 1e30 for factor in (*self.short_factors, *self.long_factors)):
            raise ValueError(f"{source}: short_factor and long_factor must be > 0 and finite")
        counts = {len(self.short_factors), len(self.long_factors)}
        if self.kind == "longrope" and counts != {pairs}:
            raise ValueError(f"{source}: short_factor and long_factor must have {pairs} numbers, got {max(counts)}")


@dataclass(frozen=True)
class ModelConfig:
    """Holds sizes and constants of a decoder: rotary embedding, RMSNorm, grouped attention, SwiGLU.

    Args:
        layers: decoder layers.
        hidden: elements of a token between layers.
        feed_forward: elements of a token within the feed-forward layer.
        heads: heads of queries.
        key_heads: heads of keys and of values; consecutive heads of queries share one.
        head_size: elements of a head.
        vocabulary: rows of the embedding.
        epsilon: that of RMSNorm.
        rope_base: base of the rotary angles, but for layers with a window where those have one of their own.
        rope_scaling: how the angles are stretched for longer contexts; None: they are not.
        qkv_bias: whether the products before attention have a bias.
        end_tokens: tokens that end a text.
        begin_token: the token that begins one; None: there is none.
    """

    architecture: str  # one of FAMILIES
    layers: int
    hidden: int
    feed_forward: int
    heads: int
    key_heads: int
    head_size: int
    vocabulary: int
    context: int  # positions that the network was made for
    epsilon: float
    rope_base: float
    rope_scaling: RopeScaling | None = None
    qkv_bias: bool = False
    output_bias: bool = False  # of the product behind attention
    tied_embedding: bool = True  # the embedding is also the last product's weight
    end_tokens: tuple[int, ...] = ()
    begin_token: int | None = None
    rotary: int = 0  # elements of a head that are rotated; 0: all
    windows: tuple[int, ...] = ()  # of each layer, how many keys a query sees at most; 0: all. Without any: all
    query_scale: float = 0.0  # what scores are multiplied by; 0: 1 / sqrt(head_size)
    score_cap: float = 0.0  # scores come near to it at most; 0: they stay as they are
    logit_cap: float = 0.0  # logits come near to it at most; 0: they stay as they are
    local_base: float = 0.0  # base of the angles of layers with a window; 0: that of all
    experts: int = 0  # of each layer, in the place of one feed-forward layer; `feed_forward` is the size of each
    experts_used: int = 0  # of a token
    normalized_experts: bool = False  # whether the weights of a token's experts add up to 1

    def check(self, source: str) -> None:
        """Check that the sizes are possible and fit each other.

        Args:
            source: what the message begins with, such as the name of a file.

        Raises:
            ValueError: they do not.
        """
        for name in ("layers", "hidden", "feed_forward", "heads", "key_heads", "head_size", "vocabulary", "context"):
            if getattr(self, name) < 1:
                raise ValueError(f"{source}: {name} must be at least 1, got {getattr(self, name)}")
        if self.layers > MOST_LAYERS:
            raise ValueError(f"{source}: layers must be at most {MOST_LAYERS}, got {self.layers}")
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
        self._check_parts(source)
        if self.rope_scaling is not None:
            if self.rope_scaling.kind == "yarn" and self.rope_base <= 1:
                raise ValueError(f"{source}: rope_base must be > 1 with yarn, got {self.rope_base}")
            self.rope_scaling.check(source, self.rotary_pairs)

    def _check_parts(self, source: str) -> None:
        if self.rotary % 2 or not 0 <= self.rotary <= self.head_size:
            raise ValueError(f"{source}: the part of a head that is rotated must be even, got {self.rotary}")
        if self.windows and (len(self.windows) != self.layers or min(self.windows) < 0):
            raise ValueError(f"{source}: windows must be {self.layers} and at least 0, got {self.windows!r:.60}")
        for name in ("query_scale", "score_cap", "logit_cap", "local_base"):
            if not 0 <= getattr(self, name) < 1e30:
                raise ValueError(f"{source}: {name} must be at least 0 and finite, got {getattr(self, name)}")
        if self.family.experts != bool(self.experts) or not 0 <= self.experts <= MOST_EXPERTS:
            rule = f"1 to {MOST_EXPERTS}" if self.family.experts else "0"
            raise ValueError(f"{source}: experts of {self.architecture} must be {rule}, got {self.experts}")
        least, most = min(self.experts, 1), min(self.experts, MOST_EXPERTS_USED)
        if not least <= self.experts_used <= most:
            raise ValueError(f"{source}: experts of a token must be {least} to {most}, got {self.experts_used}")

    @property
    def family(self) -> Family:
        """Return what sets the architecture apart."""
        return FAMILIES[self.architecture]

    @property
    def rotary_pairs(self) -> int:
        """Return the number of pairs of elements of a head that are rotated."""
        return (self.rotary or self.head_size) // 2

    @property
    def rotary_mode(self) -> str:
        """Return which elements of a head are a pair, as `ops.rotary_embedding` says it."""
        return "interleave" if self.family.interleaved else "half"

    @property
    def query_key_norm(self) -> bool:
        """Tell whether queries and keys have norms, before they are rotated."""
        return self.family.query_key_norm != "none"

    @property
    def scale_of_scores(self) -> float:
        """Return what scores are multiplied by."""
        return self.query_scale or self.head_size**-0.5

    @property
    def embedding_scale(self) -> float:
        """Return what rows of the embedding are multiplied by."""
        return self.hidden**0.5 if self.family.scaled_embedding else 1.0

    @property
    def norm_of_all_heads(self) -> bool:
        """Tell whether all heads of queries, or of keys, have one norm, not one each."""
        return self.family.query_key_norm == "all"

    @property
    def query_size(self) -> int:
        """Return the number of elements of all queries of a token."""
        return self.heads * self.head_size

    @property
    def key_size(self) -> int:
        """Return the number of elements of all keys, or all values, of a token."""
        return self.key_heads * self.head_size
