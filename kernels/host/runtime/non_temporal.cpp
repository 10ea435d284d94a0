#include "runtime/non_temporal.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <fstream>

namespace AscendC {
namespace host {

namespace {

// A virtual machine shows all of a cache that it shares with others. With 480 MiB shown, operators that read what the
// one before had written took as long either way at 128 MiB, 0.83 of the time with non-temporal stores at 256 MiB, and
// 1.5 times as long at 64 MiB. With one of 32 MiB: as long at 48 MiB, 0.9 of the time at 64 MiB, 1.2 times as long
// at 32.
constexpr uint64_t MAX_NON_TEMPORAL_BYTES = 128ull << 20;

// Returns the L3 of the first core, as Linux says: glibc takes that of AMD's for as many as there are cores. 0: not
// known. CPUs of several such complexes hold more in all, but no core has more to itself.
uint64_t LastCacheBytes()
{
    std::ifstream file("/sys/devices/system/cpu/cpu0/cache/index3/size");
    uint64_t kib = 0;
    char suffix = 0;
    if (file >> kib >> suffix && suffix == 'K') {
        return kib << 10;
    }
    const long shown = sysconf(_SC_LEVEL3_CACHE_SIZE);
    return shown > 0 ? static_cast<uint64_t>(shown) : 0;
}

std::atomic<uint64_t> g_nonTemporalBytes{0};

uint64_t DefaultNonTemporalBytes()
{
    if (const char* text = std::getenv("MS_ASCEND_OPS_STREAM_BYTES")) {
        char* end = nullptr;
        const unsigned long long bytes = std::strtoull(text, &end, 10);
        if (*text >= '0' && *text <= '9' && *end == '\0' && bytes > 0) {
            return bytes;
        }
        std::fprintf(stderr, "ms_ascend_ops: MS_ASCEND_OPS_STREAM_BYTES must be 1 or more, got '%s'; it is ignored\n",
                     text);
    }
    const uint64_t cache = LastCacheBytes();
    return cache > 0 ? std::min(cache / 2 * 3, MAX_NON_TEMPORAL_BYTES) : MAX_NON_TEMPORAL_BYTES;
}

}  // namespace

bool BypassesCaches(uint64_t bytes)
{
    uint64_t least = g_nonTemporalBytes.load(std::memory_order_relaxed);
    if (least == 0) {
        least = DefaultNonTemporalBytes();
        g_nonTemporalBytes.store(least, std::memory_order_relaxed);
    }
    return bytes >= least;
}

void SetNonTemporalBytes(uint64_t bytes)
{
    g_nonTemporalBytes.store(bytes, std::memory_order_relaxed);
}

void FenceNonTemporalStores()
{
#if defined(__x86_64__)
    __builtin_ia32_sfence();
#else
    std::atomic_thread_fence(std::memory_order_seq_cst);
#endif
}

}  // namespace host
}  // namespace AscendC
