/*!
 * Launches of programs, one on each core.
 */
#ifndef TESTS_HOST_CALLS_LAUNCHES_H
#define TESTS_HOST_CALLS_LAUNCHES_H

#include <pybind11/numpy.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "program.h"

namespace host_calls {

namespace py = pybind11;

enum class Execution { DEFERRED, SERIAL, FLUSHED, REPLAYED };

inline Execution ExecutionOf(const std::string& name)
{
    static const std::map<std::string, Execution> names{{"deferred", Execution::DEFERRED},
                                                        {"serial", Execution::SERIAL},
                                                        {"flushed", Execution::FLUSHED},
                                                        {"replayed", Execution::REPLAYED}};
    return names.at(name);
}

inline void Play(const Program& program, Context& context, Execution execution)
{
    constexpr uint32_t CALLS_PER_FLUSH = 3;
    uint32_t done = 0;
    for (const Call& call : program.calls) {
        call(context);
        if (execution == Execution::SERIAL) {
            host::Core::Current().Fence();
        } else if (execution == Execution::FLUSHED && ++done % CALLS_PER_FLUSH == 0) {
            host::Core::Current().Flush();
        }
    }
    host::Core::Current().Fence();
}

using Bytes = py::array_t<uint8_t, py::array::c_style>;

// Runs program i on core i again and again, in other memory each time; the last time in `gm` and `images`, which are
// the Unified Buffers, and loaded and stored as global memory is. Returns how many programs ran in that last launch.
inline uint32_t Replay(const std::vector<const Program*>& programs, char* gm, size_t gmBytes, char* images,
                       size_t ubBytes, uint64_t outputBytes, std::vector<std::vector<uint64_t>>& results)
{
    constexpr uint32_t TIMES = 3;
    const size_t imageBytes = programs.size() * ubBytes;
    std::string tiling;
    for (const Program* program : programs) {
        tiling += std::to_string(program->number) + ' ';
    }
    std::atomic<uint32_t> ran{0};
    std::vector<std::unique_ptr<char[]>> before;  // kept, so that each lies elsewhere
    for (uint32_t time = 1; time <= TIMES; ++time) {
        char* memory = gm;
        char* buffers = images;
        if (time < TIMES) {
            before.push_back(std::make_unique<char[]>(gmBytes + imageBytes));
            memory = before.back().get();
            buffers = memory + gmBytes;
            memcpy(memory, gm, gmBytes);
            memcpy(buffers, images, imageBytes);
        }
        ms_ascend_ops::LaunchMemory launched;
        launched.tensors[0] = {memory, memory + gmBytes};
        launched.tensors[1] = {buffers, buffers + imageBytes};
        launched.tensorCount = 2;
        launched.outputBytes = outputBytes;
        ran = 0;
        host::Launch({static_cast<uint32_t>(programs.size()), 0}, launched, tiling, [&](GM_ADDR) {
            const size_t block = static_cast<size_t>(GetBlockIdx());
            TPipe pipe;
            Context context;
            context.gm = memory;
            pipe.InitBuffer(context.buffer, host::UB_BYTES);
            GlobalTensor<float> image;
            image.SetGlobalBuffer(reinterpret_cast<float*>(buffers + block * ubBytes));
            const uint32_t floats = static_cast<uint32_t>(ubBytes / sizeof(float));
            DataCopy(context.Local<float>(0), image, floats);
            Play(*programs[block], context, Execution::REPLAYED);
            SetAtomicNone();
            DataCopy(image, context.Local<float>(0), floats);
            results[block] = std::move(context.results);
            ++ran;
        });
    }
    return ran;
}

// Runs program i on core i. `ub` (cores, bytes): what the Unified Buffers hold before, and after, from their start on.
// Returns what each program read by itself.
inline std::vector<std::vector<uint64_t>> Run(const std::vector<const Program*>& programs, Bytes& gm, Bytes& ub,
                                              const std::string& execution, uint64_t outputBytes)
{
    if (ub.ndim() != 2 || ub.shape(0) != static_cast<py::ssize_t>(programs.size()) ||
        ub.shape(1) > static_cast<py::ssize_t>(host::UB_BYTES)) {
        throw std::invalid_argument("host_calls: ub must have one row of Unified Buffer bytes per program");
    }
    const Execution how = ExecutionOf(execution);
    const size_t bytes = static_cast<size_t>(ub.shape(1));
    uint8_t* images = ub.mutable_data();
    char* memory = reinterpret_cast<char*>(gm.mutable_data());
    const size_t gmBytes = static_cast<size_t>(gm.nbytes());
    std::vector<std::vector<uint64_t>> results(programs.size());
    py::gil_scoped_release release;
    if (how == Execution::REPLAYED) {
        const bool looks = std::any_of(programs.begin(), programs.end(), [](const Program* p) { return p->looks; });
        const uint32_t ran =
            Replay(programs, memory, gmBytes, reinterpret_cast<char*>(images), bytes, outputBytes, results);
        // With several cores, the calling thread may have played a block that another had noted down.
        if (programs.size() == 1 && (ran > 0) != looks) {
            throw std::runtime_error(looks ? "host_calls: values were not looked at" : "host_calls: not replayed");
        }
        return results;
    }
    ms_ascend_ops::LaunchMemory launched;
    launched.tensors[0] = {memory, memory + gmBytes};
    launched.tensorCount = 1;
    launched.outputBytes = outputBytes;
    host::Launch({static_cast<uint32_t>(programs.size()), 0}, launched, "", [&](GM_ADDR) {
        const size_t block = static_cast<size_t>(GetBlockIdx());
        TPipe pipe;
        Context context;
        context.gm = memory;
        pipe.InitBuffer(context.buffer, host::UB_BYTES);
        memcpy(host::Core::Current().UnifiedBuffer(), images + block * bytes, bytes);
        Play(*programs[block], context, how);
        memcpy(images + block * bytes, host::Core::Current().UnifiedBuffer(), bytes);
        results[block] = std::move(context.results);
    });
    return results;
}

// What each core of a launch is told of the cores: its number, that of the blocks, which vector core of its block it
// is, and how many those are.
inline std::vector<std::array<int64_t, 4>> Cores(uint32_t count, bool share)
{
    std::vector<std::array<int64_t, 4>> told(count);
    py::gil_scoped_release release;
    host::Launch(
        {count, 0}, {}, "",
        [&](GM_ADDR) {
            told[static_cast<size_t>(GetBlockIdx())] = {GetBlockIdx(), GetBlockNum(), GetSubBlockIdx(),
                                                        GetTaskRation()};
        },
        share ? host::KernelType::MIX_AIC_1_2 : host::KernelType::AIV_ONLY);
    return told;
}

}  // namespace host_calls

#endif  // TESTS_HOST_CALLS_LAUNCHES_H
