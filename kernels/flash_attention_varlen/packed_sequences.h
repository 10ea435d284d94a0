/*!
 * Sequences of different lengths, one after the other, by their cumulative lengths.
 */
#ifndef MS_ASCEND_OPS_FLASH_ATTENTION_VARLEN_PACKED_SEQUENCES_H
#define MS_ASCEND_OPS_FLASH_ATTENTION_VARLEN_PACKED_SEQUENCES_H

#include "kernel_operator.h"
#include "primitives/attention_sequence.h"

namespace ms_ascend_ops {

// Where each sequence ends among `total` rows. The kernel stops where one would end before it begins, or behind all
// rows, and where the last one does not end with them: rows of the output would stay as they are.
class CumulativeLengths {
public:
    __aicore__ inline void Init(GM_ADDR ends, uint64_t count, uint64_t total)
    {
        endsGm_.SetGlobalBuffer(reinterpret_cast<__gm__ int32_t*>(ends), count);
        count_ = count;
        total_ = total;
        if (count == 0) {
            AscendC::Trap();
        }
    }

    // Where sequence `index` ends, which begins at `begin`.
    __aicore__ inline uint64_t EndOf(uint64_t index, uint64_t begin) const
    {
        const int32_t end = endsGm_.GetValue(index);
        if (end < 0 || static_cast<uint64_t>(end) < begin || static_cast<uint64_t>(end) > total_ ||
            (index + 1 == count_ && static_cast<uint64_t>(end) != total_)) {
            AscendC::Trap();
        }
        return static_cast<uint64_t>(end);
    }

private:
    AscendC::GlobalTensor<int32_t> endsGm_;
    uint64_t count_ = 0;
    uint64_t total_ = 0;
};

class PackedSequences {
public:
    template <class TILING>
    __aicore__ inline void Init(GM_ADDR queryLengths, GM_ADDR keyLengths, const TILING& tiling)
    {
        queries_.Init(queryLengths, tiling.sequences, tiling.queryLength);
        keys_.Init(keyLengths, tiling.sequences, tiling.keyLength);
        count_ = tiling.sequences;
    }

    // The next one; false behind the last.
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
