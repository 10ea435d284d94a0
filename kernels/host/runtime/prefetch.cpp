#include "runtime/prefetch.h"

#include <algorithm>

namespace AscendC {
namespace host {

void Prefetcher::LookAhead(const char* gm, const Rows& rows, Stream& stream)
{
    constexpr int64_t MAX_STEP = 1 << 20;
    const int64_t step = stream.last == nullptr ? 0 : gm - stream.last;
    stream.last = gm;
    if (rows.Bytes() < MIN_BYTES || step <= 0 || step > MAX_STEP || count_ == MAX_AHEAD) {
        return;
    }
    Add(gm + step, rows, step);
}

bool Prefetcher::InStretches() const
{
    return std::all_of(begin(), end(), [this](const Ahead& ahead) {
        return ahead.rows.IsStretch() && ahead.rows.Bytes() == ahead_[0].rows.Bytes();
    });
}

void Prefetcher::Spread(uint32_t iterations)
{
    for (uint32_t i = 0; i < count_; ++i) {
        Ahead& ahead = ahead_[i];
        ahead.linesPerIteration = ahead.rows.rows * (ahead.rows.rowBytes / LINE_BYTES + 1) / (iterations + 1) + 1;
    }
}

// A few lines of each at a time, no more than the core has fill buffers for. At an end of the data no instruction uses
// the lines that are fetched.
void Prefetcher::Fetch(uint32_t iterations)
{
    for (uint32_t k = 0; k < count_; ++k) {
        Ahead& ahead = ahead_[k];
        for (uint32_t lines = ahead.linesPerIteration * iterations; lines > 0 && ahead.rows.rows > 0;) {
            const uint32_t inRow = (ahead.left + LINE_BYTES - 1) / LINE_BYTES;
            const uint32_t now = inRow < lines ? inRow : lines;
            for (uint32_t i = 0; i < now; ++i) {
                __builtin_prefetch(ahead.next + i * LINE_BYTES, 0, 2);
            }
            lines -= now;
            if (now * LINE_BYTES < ahead.left) {
                ahead.next += now * LINE_BYTES;
                ahead.left -= now * LINE_BYTES;
            } else if (--ahead.rows.rows > 0) {
                ahead.next += ahead.left + ahead.rows.stride - ahead.rows.rowBytes;
                ahead.left = ahead.rows.rowBytes;
            }
        }
    }
}

void Prefetcher::FetchBegins() const
{
    for (uint32_t k = 0; k < count_; ++k) {
        const Ahead& ahead = ahead_[k];
        const char* row = ahead.next;
        for (uint32_t r = 0; r < ahead.rows.rows; ++r, row += ahead.rows.stride) {
            for (uint32_t i = 0; i < BEGIN_BYTES && i < ahead.rows.rowBytes; i += LINE_BYTES) {
                __builtin_prefetch(row + i, 0, 3);
            }
        }
    }
}

}  // namespace host
}  // namespace AscendC
