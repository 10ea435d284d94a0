/*!
 * Walks over sequences of different lengths, one after the other, by their cumulative lengths.
 */
#ifndef MS_ASCEND_OPS_FLASH_ATTENTION_VARLEN_PACKED_SEQUENCES_H
#define MS_ASCEND_OPS_FLASH_ATTENTION_VARLEN_PACKED_SEQUENCES_H

#include "kernel_operator.h"
#include "primitives/attention_sequence.h"
#include "primitives/cumulative_lengths.h"

namespace ms_ascend_ops {

class PackedSequences {
public:
    template <class TILING>
    __aicore__ inline void Init(GM_ADDR queryLengths, GM_ADDR keyLengths, const TILING& tiling)
    {
        queries_.Init(queryLengths, tiling.sequences, tiling.queryLength);
        keys_.Init(keyLengths, tiling.sequences, tiling.keyLength);
        count_ = tiling.sequences;
    }

    // Goes to the next one; returns false behind the last.
    template <class TILING>
    __aicore__ inline bool Next(const TILING& tiling, AttentionSequence& sequence)
    {
        if (index_ == count_) {
            return false;
        }
        const uint64_t queryEnd = queries_.EndOf(index_, query_);
        const uint64_t keyEnd = keys_.EndOf(index_, key_);
        sequence = {index_,
                    queryEnd - query_,
                    keyEnd - key_,
                    query_ * tiling.queryRow,
                    key_ * tiling.keyRow,
                    key_ * tiling.valueRow,
                    query_ * tiling.outRow,
                    query_};
        query_ = queryEnd;
        key_ = keyEnd;
        ++index_;
        return true;
    }

private:
    CumulativeLengths queries_;
    CumulativeLengths keys_;
    uint64_t count_ = 0;
    uint64_t index_ = 0;
    uint64_t query_ = 0;
    uint64_t key_ = 0;
};

}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_FLASH_ATTENTION_VARLEN_PACKED_SEQUENCES_H
