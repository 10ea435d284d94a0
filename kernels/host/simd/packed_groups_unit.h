/*!
 * Finds the groups of packed numbers whose sums are calculated at once (packed_integers_unit.h), for
 * vector_unit.cpp only.
 */
#ifndef ASCENDC_HOST_SIMD_PACKED_GROUPS_UNIT_H
#define ASCENDC_HOST_SIMD_PACKED_GROUPS_UNIT_H

#include <cstdint>
#include <cstring>

#include "simd/simd.h"

namespace AscendC {
namespace host {
namespace HOST_ISA {

constexpr uint32_t MOST_PACKED_GROUPS = 256;  // a repeat each
constexpr uint32_t SUMS_AT_ONCE = 8;          // of a vector
constexpr uint32_t MOST_SUMS_AT_ONCE = 16;    // of a vector of AVX-512

// These groups follow each other in a row.
struct NextGroups {
    const uint8_t* numbers;
    uint32_t step;  // bytes from a group to the next
    uint32_t group;
    static constexpr bool WHOLE = true;  // no slot is empty

    HOST_INLINE const uint8_t* Place(uint32_t slot) const { return numbers + slot * step; }
};

// These are the last groups of a row, fewer than eight.
struct LastGroups : NextGroups {
    uint32_t count;
    static constexpr bool WHOLE = false;

    HOST_INLINE const uint8_t* Place(uint32_t slot) const { return slot < count ? numbers + slot * step : nullptr; }
};

// Holds the last groups of 16 of a row, with groups of zeros behind them, for reads of several groups at once.
template <uint32_t BYTES>
struct PaddedGroups {
    alignas(32) uint8_t bytes[SUMS_AT_ONCE * BYTES] = {};

    PaddedGroups(const void* from, uint32_t count) { memcpy(bytes, from, count * BYTES); }
};

}  // namespace HOST_ISA
}  // namespace host
}  // namespace AscendC

#endif  // ASCENDC_HOST_SIMD_PACKED_GROUPS_UNIT_H
