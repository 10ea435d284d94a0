/*!
 * Tiling functions share this arithmetic: how many cores, how many rows each. It is plain C++.
 */
#ifndef MS_ASCEND_OPS_PRIMITIVES_SPLIT_H
#define MS_ASCEND_OPS_PRIMITIVES_SPLIT_H

#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <string>

#include "interface/launch_config.h"

namespace ms_ascend_ops {

constexpr uint32_t BLOCK_BYTES = 32;        // alignment of the Unified Buffer
constexpr uint32_t MAX_REPEAT_TIMES = 255;  // of one vector instruction
constexpr uint32_t MAX_COPY_ROWS = 4095;    // of one DataCopyPad
constexpr uint32_t LINE_BYTES = 512;        // alignment of global memory at which copies run at full rate
constexpr uint32_t FLOATS_PER_REPEAT = 64;

constexpr uint64_t CeilDiv(uint64_t a, uint64_t b)
{
    return (a + b - 1) / b;
}

constexpr uint64_t RoundUp(uint64_t a, uint64_t multiple)
{
    return CeilDiv(a, multiple) * multiple;
}

// Checks a size that a kernel counts in 32 bits: loops over it step beyond its end, so that 31 must do. `what` is a
// plural.
inline uint32_t Size32(uint64_t size, const char* what)
{
    if (size > INT32_MAX) {
        throw std::invalid_argument(std::string(what) + " must be fewer than 2^31, got " + std::to_string(size));
    }
    return static_cast<uint32_t>(size);
}

// Returns the cores worth starting for `pieces` independent pieces of work that move `bytes` in all.
inline uint32_t CoresFor(uint64_t pieces, uint64_t bytes, const Platform& platform)
{
    const uint64_t worthwhile = std::max<uint64_t>(1, bytes / platform.minBytesPerCore);
    return static_cast<uint32_t>(std::max<uint64_t>(1, std::min<uint64_t>({platform.coreNum, pieces, worthwhile})));
}

}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_PRIMITIVES_SPLIT_H
