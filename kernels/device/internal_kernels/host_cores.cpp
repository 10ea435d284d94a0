/*!
 * Tells MindSpore that the host has 32 cores. Its runtime divides up to 30 threads, as many as there are cores, and its
 * inference for an NPU relies on them: with few the lengths of sequences do not reach the kernels of attention, or
 * shapes come too late. A host of an NPU has the cores. Where a machine has fewer, `emulate` preloads this in the place
 * of the function of the C++ library.
 */
#include <thread>

namespace {

constexpr unsigned CORES = 32;

}  // namespace

__attribute__((visibility("default"))) unsigned std::thread::hardware_concurrency() noexcept
{
    return CORES;
}
