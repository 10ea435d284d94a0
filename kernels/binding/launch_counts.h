/*!
 * Counts launches, their time and their bytes by operator and shape bucket, for monitoring. It is off until it is
 * turned on.
 */
#ifndef MS_ASCEND_OPS_BINDING_LAUNCH_COUNTS_H
#define MS_ASCEND_OPS_BINDING_LAUNCH_COUNTS_H

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

#include "binding/op.h"

namespace ms_ascend_ops::binding {

// These are the upper bounds of the histogram, in nanoseconds. Longer launches are in one more bucket.
inline constexpr std::array<uint64_t, 20> LAUNCH_BOUNDS_NS = {
    1000,    2000,    5000,     10000,    20000,    50000,     100000,    200000,    500000,     1000000,
    2000000, 5000000, 10000000, 20000000, 50000000, 100000000, 200000000, 500000000, 1000000000, 10000000000};

struct LaunchCounts {
    std::array<uint64_t, LAUNCH_BOUNDS_NS.size() + 1> calls{};
    uint64_t nanoseconds = 0;
    uint64_t bytes = 0;  // of inputs and outputs
    uint64_t failures = 0;
};

inline std::atomic<bool> launchesAreCounted{false};

// Counts a launch that took so long; a failed one has no time.
void CountLaunch(const Op& op, const TensorDesc* inputs, uint64_t bytes, uint64_t nanoseconds, bool failed);

template <typename LAUNCH>
void Counted(const Op& op, const TensorDesc* inputs, uint64_t bytes, LAUNCH&& launch)
{
    const auto start = std::chrono::steady_clock::now();
    try {
        launch();
    } catch (...) {
        CountLaunch(op, inputs, bytes, 0, true);
        throw;
    }
    CountLaunch(op, inputs, bytes, static_cast<uint64_t>((std::chrono::steady_clock::now() - start).count()), false);
}

// Visits the counts of all threads since the library was loaded. A bucket is "float32[8,64] -": inputs with every dim
// rounded up to a power of two; "other" where a thread has seen too many.
void VisitLaunchCounts(const std::function<void(const Op&, const std::string& bucket, const LaunchCounts&)>& visit);

}  // namespace ms_ascend_ops::binding

#endif  // MS_ASCEND_OPS_BINDING_LAUNCH_COUNTS_H
