/*!
 * Prefetches the next tile while this one is calculated, as double buffering does on the chip. Compiled loops prefetch
 * it line by line as they run, if it lies in stretches of one length (LoopAhead); otherwise, or where no loop can be
 * compiled, Prefetcher::Fetch does between steps, or FetchBegins where there is one pass. The later lines of this tile
 * a loop prefetches itself (loop_ir.cpp).
 */
#ifndef ASCENDC_HOST_RUNTIME_PREFETCH_H
#define ASCENDC_HOST_RUNTIME_PREFETCH_H

#include <cstdint>

#include "ir/memory.h"
#include "jit/loop_ahead.h"

namespace AscendC {
namespace host {

// Describes a queue's stream of copies: the place of the last one tells that of the next.
struct Stream {
    const char* last = nullptr;
};

class Prefetcher {
public:
    // This part of a tile is not yet fetched.
    struct Ahead {
        const char* next;
        Rows rows;      // from the current one on
        uint32_t left;  // bytes of the current row
        uint32_t linesPerIteration;
        int64_t step;  // how far it lies behind this tile's
    };

    void Reset() { count_ = 0; }
    bool Idle() const { return count_ == 0; }
    // A queue was filled from `gm`: the next tile will lie as far on as this one from the last.
    void LookAhead(const char* gm, const Rows& rows, Stream& stream);
    void Add(const char* gm, const Rows& rows, int64_t step) { ahead_[count_++] = {gm, rows, rows.rowBytes, 0, step}; }
    const Ahead* begin() const { return ahead_; }
    const Ahead* end() const { return ahead_ + count_; }
    // Is it a stretch each, all of the same length?
    bool InStretches() const;
    // Spreads the prefetches over so many iterations, and does those of some.
    void Spread(uint32_t iterations);
    void Fetch(uint32_t iterations);
    // Fetches only the beginnings of the rows, for schedules whose one loop prefetches the remainder itself, but not
    // past the end of a row.
    void FetchBegins() const;

private:
    static constexpr uint32_t MAX_AHEAD = LoopAhead::MAX_STRETCHES;
    static constexpr uint32_t BEGIN_BYTES = 512;  // 1024 gain no more
    static constexpr uint32_t MIN_BYTES = 4096;
    uint32_t count_ = 0;
    Ahead ahead_[MAX_AHEAD];
};

}  // namespace host
}  // namespace AscendC

#endif  // ASCENDC_HOST_RUNTIME_PREFETCH_H
