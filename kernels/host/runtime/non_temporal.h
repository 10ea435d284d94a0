/*!
 * Decides about non-temporal stores, by which outputs bypass the caches. An ordinary store loads the line that it
 * overwrites first, and evicts others. That is right as long as the output is read again before it leaves the cache.
 */
#ifndef ASCENDC_HOST_RUNTIME_NON_TEMPORAL_H
#define ASCENDC_HOST_RUNTIME_NON_TEMPORAL_H

#include <cstdint>

namespace AscendC {
namespace host {

// Does a launch that moves so many bytes move so much that its outputs do not stay in the caches anyway?
bool BypassesCaches(uint64_t bytes);

// Sets from how many bytes on stores are non-temporal. Initially MS_ASCEND_OPS_STREAM_BYTES or the caches decide.
// Setting 0 restores that.
void SetNonTemporalBytes(uint64_t bytes);

// To be called before other cores are told that this one is done: only then do they see its non-temporal stores.
void FenceNonTemporalStores();

}  // namespace host
}  // namespace AscendC

#endif  // ASCENDC_HOST_RUNTIME_NON_TEMPORAL_H
