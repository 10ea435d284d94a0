/*!
 * Finds the bytes that an operand touches, as pieces without gaps.
 */
#ifndef ASCENDC_HOST_CHECKED_PIECES_H
#define ASCENDC_HOST_CHECKED_PIECES_H

#include "observed/observer.h"

namespace AscendC {
namespace host {

// Calls body(repeat, offset, bytes) for every piece, in order. Offsets may lie outside of the Unified Buffer.
template <class BODY>
void ForPiecesByRepeat(const Access& access, BODY&& body)
{
    const uint32_t size = SizeOf(access.dtype);
    for (uint32_t repeat = 0; repeat < access.repeats; ++repeat) {
        const uint32_t bytes = (repeat + 1 == access.repeats ? access.lastLanes : access.lanes) * size;
        const int64_t start = access.offset + repeat * access.repeatStride;
        if (access.BlocksAdjoin() || bytes <= ONE_BLK_SIZE) {
            if (bytes > 0) {
                body(repeat, start, bytes);
            }
            continue;
        }
        for (uint32_t done = 0; done < bytes; done += ONE_BLK_SIZE) {
            const uint32_t now = bytes - done < ONE_BLK_SIZE ? bytes - done : ONE_BLK_SIZE;
            body(repeat, start + access.BlockAt(done / ONE_BLK_SIZE), now);
            if (access.blockStride == 0) {
                break;  // the same block again
            }
        }
    }
}

// Calls body(offset, bytes); repeats that follow each other without a gap are one piece.
template <class BODY>
void ForPieces(const Access& access, BODY&& body)
{
    const uint32_t size = SizeOf(access.dtype);
    const int64_t full = int64_t{access.lanes} * size;
    if (access.repeats > 1 && access.BlocksAdjoin() && access.repeatStride == full) {
        body(int64_t{access.offset}, static_cast<uint32_t>(full * (access.repeats - 1) + access.lastLanes * size));
        return;
    }
    ForPiecesByRepeat(access, [&](uint32_t, int64_t offset, uint32_t bytes) { body(offset, bytes); });
}

// Calls body(offset) for every element, repeat by repeat.
template <class BODY>
void ForElements(const Access& access, BODY&& body)
{
    const uint32_t size = SizeOf(access.dtype);
    for (uint32_t repeat = 0; repeat < access.repeats; ++repeat) {
        const uint32_t lanes = repeat + 1 == access.repeats ? access.lastLanes : access.lanes;
        const int64_t start = access.offset + repeat * access.repeatStride;
        for (uint32_t lane = 0; lane < lanes; ++lane) {
            const uint32_t byte = lane * size;
            body(static_cast<uint32_t>(start + access.BlockAt(byte / ONE_BLK_SIZE) + byte % ONE_BLK_SIZE));
        }
    }
}

}  // namespace host
}  // namespace AscendC

#endif  // ASCENDC_HOST_CHECKED_PIECES_H
