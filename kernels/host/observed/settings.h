/*!
 * A tool may change this of an observed launch: the platform that tiling functions are told, and what became of it.
 */
#ifndef ASCENDC_HOST_OBSERVED_SETTINGS_H
#define ASCENDC_HOST_OBSERVED_SETTINGS_H

#include <cstdint>
#include <map>
#include <string>

namespace AscendC {
namespace host {

// 0 stands for the value there would be anyway.
struct Settings {
    uint32_t coreNum = 0;
    uint32_t ubBytes = 0;
    uint32_t minBytesPerCore = 0;
    uint32_t queueBuffers = 0;              // at most so many buffers in a TQue
    bool executes = true;                   // instructions; a tool that only counts need not
    std::map<std::string, int64_t> tiling;  // values of tiling fields, by name; "block_dim" is the launch's
};

Settings& TheSettings();

// Serves the generated launch code: `value` becomes what the settings say.
template <typename T>
void Overrule(const char* name, T& value)
{
    const std::map<std::string, int64_t>& values = TheSettings().tiling;
    if (const auto found = values.find(name); found != values.end()) {
        value = static_cast<T>(found->second);
    }
}

inline uint32_t QueueBuffers(uint32_t asked)
{
    const uint32_t most = TheSettings().queueBuffers;
    return most != 0 && asked > most ? most : asked;
}

}  // namespace host
}  // namespace AscendC

#endif  // ASCENDC_HOST_OBSERVED_SETTINGS_H
