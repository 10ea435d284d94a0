"""Who has which block."""

import numpy as np
import pytest

from ms_ascend_ops.llm.paged_cache import BlockPool, SequenceBlocks


def sequence(pool, tokens):
    blocks = SequenceBlocks(pool)
    reused = blocks.reuse(tokens)
    assert blocks.grow(len(tokens))
    blocks.written(tokens)
    return blocks, reused


def test_grow_and_release():
    pool = BlockPool(4, 4)
    first = SequenceBlocks(pool)
    assert first.grow(9)
    assert first.blocks == [0, 1, 2]  # next to each other: attention reads those as one
    assert not SequenceBlocks(pool).grow(5)
    assert pool.free == 1
    assert first.grow(12)
    assert first.grow(16)
    assert pool.free == 0
    first.release()
    assert pool.free == 4


def test_a_prefix_is_used_again():
    pool = BlockPool(8, 4)
    tokens = list(range(10))
    first, reused = sequence(pool, tokens)
    assert reused == 0
    second, reused = sequence(pool, [*tokens[:9], 77, 78])
    assert reused == 8
    assert second.blocks[:2] == first.blocks[:2]
    assert second.blocks[2] != first.blocks[2]
    # Another beginning, the same second block: another content of the cache.
    _, reused = sequence(pool, [9, *tokens[1:]])
    assert reused == 0


def test_one_token_is_left_over():
    pool = BlockPool(8, 4)
    tokens = list(range(8))
    first, _ = sequence(pool, tokens)
    assert SequenceBlocks(pool).reuse(tokens) == 4
    first.release()
    assert SequenceBlocks(pool).reuse([*tokens, 1]) == 8


def test_unused_blocks_stay_until_they_are_needed():
    pool = BlockPool(3, 4)
    old, _ = sequence(pool, [1, 2, 3, 4])
    old.release()
    new, _ = sequence(pool, [5, 6, 7, 8])
    new.release()
    assert pool.free == 3
    both, _ = sequence(pool, list(range(20, 28)))  # takes the empty one, then the longest unused
    assert SequenceBlocks(pool).reuse([1, 2, 3, 4, 5]) == 0
    again = SequenceBlocks(pool)
    assert again.reuse([5, 6, 7, 8, 9]) == 4
    again.release()
    both.release()


def test_a_shared_block_stays_with_its_last_user():
    pool = BlockPool(4, 2)
    first, _ = sequence(pool, [1, 2, 3])
    second, reused = sequence(pool, [1, 2, 4])
    assert reused == 2
    first.release()
    assert pool.free == 2
    other = SequenceBlocks(pool)
    assert other.grow(4)
    assert not set(other.blocks) & set(second.blocks)


@pytest.mark.parametrize("seed", range(5))
def test_random_use(seed):
    """No block has two contents, and none is lost."""
    rng = np.random.default_rng(seed)
    pool, alive = BlockPool(12, 4), []
    content = {}
    for _ in range(300):
        if alive and rng.random() < 0.5:
            alive.pop(int(rng.integers(len(alive)))).release()
            continue
        tokens = rng.integers(0, 2, int(rng.integers(1, 20))).tolist()
        blocks = SequenceBlocks(pool)
        reused = blocks.reuse(tokens)
        for index in range(reused // 4):
            assert content[blocks.blocks[index]] == tokens[: 4 * index + 4]
        if not blocks.grow(len(tokens)):
            blocks.release()
            continue
        for index in range(reused // 4, len(blocks.blocks)):
            content[blocks.blocks[index]] = tokens[: 4 * index + 4]
        blocks.written(tokens)
        alive.append(blocks)
        used = {block for one in alive for block in one.blocks}
        assert len(used) + pool.free == 12
    for one in alive:
        one.release()
    assert pool.free == 12
