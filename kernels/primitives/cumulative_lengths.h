/*!
 * Finds parts of different lengths, which lie one after the other, by their cumulative lengths: sequences, or the rows
 * of groups.
 */
#ifndef MS_ASCEND_OPS_PRIMITIVES_CUMULATIVE_LENGTHS_H
#define MS_ASCEND_OPS_PRIMITIVES_CUMULATIVE_LENGTHS_H

#include "kernel_operator.h"

namespace ms_ascend_ops {

// Says where each of `count` parts ends among `total` rows. The kernel stops where one would end before it begins, or
// behind all rows, and where the last one does not end with them: rows of the output would stay as they are.
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

    // Returns where part `index` ends, which begins at `begin`.
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

}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_PRIMITIVES_CUMULATIVE_LENGTHS_H
