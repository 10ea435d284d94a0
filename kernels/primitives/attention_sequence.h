/*!
 * Describes one sequence of an attention: its queries of all heads, and the keys and values that they see.
 */
#ifndef MS_ASCEND_OPS_PRIMITIVES_ATTENTION_SEQUENCE_H
#define MS_ASCEND_OPS_PRIMITIVES_ATTENTION_SEQUENCE_H

#include "kernel_operator.h"

namespace ms_ascend_ops {

struct AttentionSequence {
    uint64_t batch;  // of the mask
    uint64_t queryLength;
    uint64_t keyLength;
    // It begins here in each tensor, in elements.
    uint64_t query;
    uint64_t key;
    uint64_t value;
    uint64_t out;   // and its gradient
    uint64_t rows;  // values of a query: lse, delta
};

// attention_edges.h reads these.
struct AttentionView {
    uint64_t queryLength;
    uint64_t keyLength;
    uint64_t window;
    uint32_t causal;
};

template <class TILING>
__aicore__ inline AttentionView ViewOf(const AttentionSequence& sequence, const TILING& tiling)
{
    return {sequence.queryLength, sequence.keyLength, tiling.window, tiling.causal};
}

// Returns one of several sequences of equal lengths, which lie one after the other.
template <class TILING>
__aicore__ inline AttentionSequence EqualSequenceAt(const TILING& tiling, uint64_t batch)
{
    return {batch,
            tiling.queryLength,
            tiling.keyLength,
            batch * tiling.queryBatch,
            batch * tiling.keyBatch,
            batch * tiling.valueBatch,
            batch * tiling.outBatch,
            batch * tiling.heads * tiling.queryLength};
}

}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_PRIMITIVES_ATTENTION_SEQUENCE_H
