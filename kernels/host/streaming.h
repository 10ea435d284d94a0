/*!
 * Streaming stores: what goes to global memory past the caches. An ordinary store loads the line that it overwrites
 * first, and drives others out of the cache. That is right as long as somebody finds the output there.
 */
#ifndef ASCENDC_HOST_STREAMING_H
#define ASCENDC_HOST_STREAMING_H

#include <cstdint>

namespace AscendC {
namespace host {

// Does a launch that moves so many bytes move so much that its outputs do not stay in the caches anyway?
bool Streams(uint64_t bytes);

// From how many bytes on that is so. Initially MS_ASCEND_OPS_STREAM_BYTES, or by what caches there are. Setting 0
// restores that.
void SetStreamBytes(uint64_t bytes);

// To be called before other cores are told that this one is done: only then do they see what it streamed.
void EndStreams();

}  // namespace host
}  // namespace AscendC

#endif  // ASCENDC_HOST_STREAMING_H
