#include "streaming.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>

namespace AscendC {
namespace host {

namespace {

// A virtual machine shows all of a cache that it shares with others. With 480 MiB shown, operators that read what the
// one before had written took as long either way at 128 MiB, 0.83 of the time with streaming stores at 256 MiB, and
// 1.5 times as long at 64 MiB.
constexpr uint64_t MAX_CACHE_BYTES = 128ull << 20;

std::atomic<uint64_t> g_streamBytes{0};

uint64_t DefaultStreamBytes()
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
    const long cache = sysconf(_SC_LEVEL3_CACHE_SIZE);  // 0 or -1: not known
    return cache > 0 ? std::min<uint64_t>(cache, MAX_CACHE_BYTES) : MAX_CACHE_BYTES;
}

}  // namespace

bool Streams(uint64_t bytes)
{
    uint64_t least = g_streamBytes.load(std::memory_order_relaxed);
    if (least == 0) {
        least = DefaultStreamBytes();
        g_streamBytes.store(least, std::memory_order_relaxed);
    }
    return bytes >= least;
}

void SetStreamBytes(uint64_t bytes)
{
    g_streamBytes.store(bytes, std::memory_order_relaxed);
}

void EndStreams()
{
#if defined(__x86_64__)
    __builtin_ia32_sfence();
#else
    std::atomic_thread_fence(std::memory_order_seq_cst);
#endif
}

}  // namespace host
}  // namespace AscendC
