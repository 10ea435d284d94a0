"""Tracks who has which block of the cache, and which blocks hold a prefix that another sequence can use, too."""

from __future__ import annotations

import heapq
from collections import OrderedDict
from collections.abc import Sequence
from itertools import count

__all__ = ["BlockPool", "SequenceBlocks"]

# A full block holds this: the number of the prefix before it, and its tokens. Equal keys, equal keys and values.
_Key = tuple[int, tuple[int, ...]]


class BlockPool:
    """Holds blocks with counts of their users.

    A full block is known by all tokens up to its end. When its last user leaves, it keeps its content until somebody
    needs the memory, the longest unused first.
    """

    def __init__(self, blocks: int, block: int):
        self.block = block  # tokens
        self.blocks = blocks
        self._empty = list(range(blocks))  # a heap: low numbers first, so that those of a sequence follow each other
        self._users = [0] * blocks
        self._unused: OrderedDict[int, None] = OrderedDict()  # nobody's, with a content that may be wanted again
        self._by_key: dict[_Key, tuple[int, int]] = {}  # block and number of the prefix that ends with it
        self._key_of: dict[int, _Key] = {}
        self._prefixes = count(1)

    @property
    def free(self) -> int:
        """Return the number of blocks that can be taken."""
        return len(self._empty) + len(self._unused)

    def take(self) -> int:
        """Take a block for new content; there is a free one."""
        if self._empty:
            block = heapq.heappop(self._empty)
        else:
            block, _ = self._unused.popitem(last=False)
            del self._by_key[self._key_of.pop(block)]
        self._users[block] = 1
        return block

    def find(self, prefix: int, tokens: tuple[int, ...]) -> tuple[int, int] | None:
        """Find the block that holds these tokens behind this prefix, add a user, and return it with the prefix
        that ends with it.
        """
        found = self._by_key.get((prefix, tokens))
        if found is not None:
            self._unused.pop(found[0], None)
            self._users[found[0]] += 1
        return found

    def fill(self, block: int, prefix: int, tokens: tuple[int, ...]) -> int:
        """Say what a block holds, now that it is full. Returns the prefix that ends with it."""
        key = (prefix, tokens)
        if key in self._by_key:  # two sequences wrote the same; the first one's is known
            return self._by_key[key][1]
        number = next(self._prefixes)
        self._by_key[key] = block, number
        self._key_of[block] = key
        return number

    def release(self, block: int) -> None:
        """Remove a user."""
        self._users[block] -= 1
        if self._users[block] == 0:
            if block in self._key_of:
                self._unused[block] = None
            else:
                heapq.heappush(self._empty, block)


class SequenceBlocks:
    """Holds the blocks of one sequence."""

    def __init__(self, pool: BlockPool):
        self._pool = pool
        self.blocks: list[int] = []
        self._full: list[int] = []  # the prefix behind each full block

    def reuse(self, tokens: Sequence[int]) -> int:
        """Take blocks that hold the beginning of these tokens. Returns how many tokens that are.

        At least one token is left over, as its logits are wanted.
        """
        size = self._pool.block
        prefix = 0
        for first in range(0, (len(tokens) - 1) // size * size, size):
            found = self._pool.find(prefix, tuple(tokens[first : first + size]))
            if found is None:
                break
            block, prefix = found
            self.blocks.append(block)
            self._full.append(prefix)
        return len(self.blocks) * size

    def missing(self, length: int) -> int:
        """Return how many blocks it needs for this length and does not have."""
        return -(-length // self._pool.block) - len(self.blocks)

    def grow(self, length: int) -> bool:
        """Take blocks for this length. False, and nothing is taken, if there are too few."""
        missing = self.missing(length)
        if missing > self._pool.free:
            return False
        self.blocks += [self._pool.take() for _ in range(missing)]
        return True

    def written(self, tokens: Sequence[int]) -> None:
        """Say which tokens the blocks hold now, from the first one on."""
        size = self._pool.block
        for index in range(len(self._full), len(tokens) // size):
            prefix = self._full[-1] if self._full else 0
            part = tuple(tokens[index * size : (index + 1) * size])
            self._full.append(self._pool.fill(self.blocks[index], prefix, part))

    def release(self) -> None:
        """Give all blocks back, the last ones first: beginnings are wanted again more often."""
        for block in reversed(self.blocks):
            self._pool.release(block)
        self.blocks, self._full = [], []
