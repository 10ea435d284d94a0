/*!
 * Finds the keys that a query of an attention sees, and hides the scores of the others.
 *
 * TILING has queryLength, keyLength, causal and window. Positions count from the end: the last query stands at the last
 * key. With `causal` a query sees the keys up to its own, with a window as many of them at most.
 */
#ifndef MS_ASCEND_OPS_PRIMITIVES_ATTENTION_EDGES_H
#define MS_ASCEND_OPS_PRIMITIVES_ATTENTION_EDGES_H

#include "kernel_operator.h"
#include "primitives/rows.h"

namespace ms_ascend_ops {

// The score of a key that a query does not see: exp of it is 0 beside any other score.
constexpr float UNSEEN = -1.7e38f;

// Returns the elements from a row of so many to the next in the Unified Buffer: whole blocks of any type.
__aicore__ inline uint32_t AttentionStride(uint32_t count)
{
    return (count + 15) / 16 * 16;
}

// [begin, end), empty if end <= begin.
struct AttentionRange {
    uint64_t begin;
    uint64_t end;
};

// Returns a - b, or 0.
__aicore__ inline uint64_t AttentionBehind(uint64_t a, uint64_t b)
{
    return a > b ? a - b : 0;
}

// Returns the keys that one of the queries at positions `first` to `last` sees.
template <class TILING>
__aicore__ inline AttentionRange AttentionKeys(const TILING& tiling, uint64_t first, uint64_t last)
{
    AttentionRange range{0, tiling.keyLength};
    if (tiling.causal != 0) {
        const uint64_t end = AttentionBehind(last + 1 + tiling.keyLength, tiling.queryLength);
        range.end = end < tiling.keyLength ? end : tiling.keyLength;
    }
    if (tiling.window != 0) {
        range.begin = AttentionBehind(first + 1 + tiling.keyLength, tiling.queryLength + tiling.window);
    }
    return range;
}

// Returns the queries that see one of the keys at positions `first` to `last`.
template <class TILING>
__aicore__ inline AttentionRange AttentionQueries(const TILING& tiling, uint64_t first, uint64_t last)
{
    AttentionRange range{0, tiling.queryLength};
    if (tiling.causal != 0) {
        range.begin = AttentionBehind(first + tiling.queryLength, tiling.keyLength);
    }
    if (tiling.window != 0) {
        const uint64_t end = AttentionBehind(last + tiling.window + tiling.queryLength, tiling.keyLength);
        range.end = end < tiling.queryLength ? end : tiling.queryLength;
    }
    return range;
}

// Hides elements outside a range in a row of floats, whatever they are: NaN, too.
class AttentionEdges {
public:
    __aicore__ inline void Init(AscendC::TPipe& pipe)
    {
        pipe.InitBuffer(buf_, AscendC::ONE_BLK_SIZE);
        kept_ = buf_.Get<float>();
    }

    // `line` has `cols` elements, the first of which is element `first` of what the range counts, and room for whole
    // blocks that hold numbers.
    __aicore__ inline void Hide(const AscendC::LocalTensor<float>& line, const AttentionRange& range, uint64_t first,
                                uint32_t cols) const
    {
        const uint32_t end = Within(range.end, first, cols);
        const uint32_t begin = Within(range.begin, first, cols);
        if (end < cols) {
            // An instruction begins at a block: the elements of it that stay are put back.
            const uint32_t part = end % FLOATS_PER_BLOCK;
            const AscendC::LocalTensor<float> behind = line[end - part];
            if (part != 0) {
                AscendC::Adds(kept_, behind, 0.0f, static_cast<int32_t>(FLOATS_PER_BLOCK));
            }
            AscendC::Duplicate(behind, UNSEEN, static_cast<int32_t>(cols - (end - part)));
            if (part != 0) {
                AscendC::Adds(behind, kept_, 0.0f, static_cast<int32_t>(part));
            }
        }
        if (begin > 0) {
            AscendC::Duplicate(line, UNSEEN, static_cast<int32_t>(begin));
        }
    }

private:
    static __aicore__ inline uint32_t Within(uint64_t element, uint64_t first, uint32_t cols)
    {
        const uint64_t column = AttentionBehind(element, first);
        return column < cols ? static_cast<uint32_t>(column) : cols;
    }

    AscendC::TBuf<AscendC::TPosition::VECCALC> buf_;
    AscendC::LocalTensor<float> kept_;
};

}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_PRIMITIVES_ATTENTION_EDGES_H
