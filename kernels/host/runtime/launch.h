/*!
 * Launches kernels: their cores run on the executor of this build.
 */
#ifndef ASCENDC_HOST_RUNTIME_LAUNCH_H
#define ASCENDC_HOST_RUNTIME_LAUNCH_H

#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>

#include "runtime/executor.h"

namespace AscendC {
namespace host {

// Ends the kernel on this core, and with it the launch: thrown by Trap and by Fail.
struct Trapped : std::runtime_error {
    using std::runtime_error::runtime_error;
};
constexpr const char* TRAPPED = "the kernel stopped itself (Trap): an input has a value that is not allowed";

// Runs a launch. A kernel that stopped itself can say no more than that: `rules` say which values it takes.
template <class LAUNCH>
void WithValueRules(const char* rules, LAUNCH&& launch)
{
    try {
        launch();
    } catch (const Trapped& trap) {
        if (std::string_view(trap.what()) != TRAPPED) {
            throw;
        }
        throw Trapped(std::string(TRAPPED) + ": " + rules);
    }
}

// See Executor::Launch.
template <class KERNEL>
void Launch(const ms_ascend_ops::LaunchConfig& config, const ms_ascend_ops::LaunchMemory& memory,
            std::string_view tiling, KERNEL&& kernel, KernelType type = KernelType::AIV_ONLY)
{
    TheExecutor().Launch(
        config, memory, tiling,
        [](void* self, GM_ADDR workspace) { (*static_cast<std::remove_reference_t<KERNEL>*>(self))(workspace); },
        &kernel, type);
}

template <class TILING>
std::string_view BytesOf(const TILING& tiling)
{
    return {reinterpret_cast<const char*>(&tiling), sizeof(tiling)};
}

}  // namespace host
}  // namespace AscendC

#endif  // ASCENDC_HOST_RUNTIME_LAUNCH_H
