#include "operators/convolution.h"

#include <cstring>
#include <memory>
#include <string_view>
#include <unordered_map>

#include "cube/onednn.h"
#include "operators/convolution_choice.h"
#include "operators/convolution_plan.h"
#include "runtime/default_arithmetic.h"
#include "runtime/executor.h"

namespace AscendC {
namespace host {
namespace convolutions {
namespace {

static_assert(sizeof(Convolution) == 2 * sizeof(DataType) + 26 * sizeof(int64_t), "compared as bytes");

std::unique_ptr<Plan> MakePlan(const Convolution& c, State& state)
{
    const int count = SharesOf(c);
    const TaskPool::Shares shares(state.pool, count);
    const bool isWeight = c.result == ConvolutionResult::DWEIGHT;
    auto plan = isWeight ? MakeWeightPlan(c) : MakeImagePlan(c);
    if (plan == nullptr && isWeight && IsDepthwise(c)) {
        plan = MakeDepthwisePlan(c);
    }
    if (plan != nullptr) {
        plan->shares = count;
    }
    return plan;
}

struct Hash {
    size_t operator()(const Convolution& c) const
    {
        return std::hash<std::string_view>()({reinterpret_cast<const char*>(&c), sizeof(c)});
    }
};
struct Equal {
    bool operator()(const Convolution& a, const Convolution& b) const { return std::memcmp(&a, &b, sizeof(a)) == 0; }
};

// Each thread has its own, as primitives have memory of their own. Never freed: at the end of a process oneDNN may be
// gone before.
struct Plans : State {
    static constexpr size_t MOST = 512;                                         // beyond that the thread starts afresh
    std::unordered_map<Convolution, std::unique_ptr<Plan>, Hash, Equal> plans;  // null: the kernel answers
};

// The library takes no padding below 0 in front. Behind x padding may take away what the kernel sees nowhere.
bool HasPadding(const Convolution& c)
{
    return c.padTop >= 0 && c.padLeft >= 0 && c.padBottom > -c.strideHeight && c.padRight > -c.strideWidth;
}

// Returns null where the kernel answers.
Plan* FindPlan(const Convolution& c, Plans*& state)
{
    const OneDnn* const library = OneDnn::Get();
    // With the tiles of a chip the order of sums is a chip's.
    if (library == nullptr || OneDnn::Functions().streamCreateOnPool == nullptr ||
        TheExecutor().Platform().tileBytes == 0 || !HasPadding(c) || c.samples * c.outHeight * c.outWidth == 0) {
        return nullptr;
    }
    static thread_local Plans* const plans = new Plans;
    state = plans;
    auto found = plans->plans.find(c);
    if (found == plans->plans.end()) {
        if (plans->plans.size() >= Plans::MOST) {
            plans->plans.clear();
        }
        found = plans->plans.emplace(c, MakePlan(c, *plans)).first;
    }
    return found->second.get();
}

}  // namespace
}  // namespace convolutions

bool Convolve(const Convolution& convolution, const ConvolutionTensors& tensors)
{
    convolutions::Plans* state = nullptr;
    auto* const plan = convolutions::FindPlan(convolution, state);
    if (plan == nullptr) {
        return false;
    }
    const TaskPool::Shares shares(state->pool, plan->shares);
    const DefaultArithmetic arithmetic;
    state->Memory(plan->bytes);
    return plan->Run(tensors, *state);
}

std::string ConvolutionImplementation(const Convolution& convolution)
{
    convolutions::Plans* state = nullptr;
    const auto* const plan = convolutions::FindPlan(convolution, state);
    return plan == nullptr ? "" : plan->name;
}

}  // namespace host
}  // namespace AscendC
