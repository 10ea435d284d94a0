/*!
 * Threads of the library play the blocks of launches.
 */
#ifndef ASCENDC_HOST_RUNTIME_THREAD_POOL_H
#define ASCENDC_HOST_RUNTIME_THREAD_POOL_H

#include <cstdint>

#include "runtime/job.h"

namespace AscendC {
namespace host {

constexpr uint32_t MAX_THREADS = 256;

// Runs all blocks of a job on threads, the calling one included, and returns when they have ended. One job at a time:
// blocks that meet at barriers are running at once.
void RunOnPool(Job& job);

}  // namespace host
}  // namespace AscendC

#endif  // ASCENDC_HOST_RUNTIME_THREAD_POOL_H
