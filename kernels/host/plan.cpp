#include "plan.h"

namespace AscendC {
namespace host {

// Rows as far apart as others may lie between them.
bool Plan::Meet(const GmRows& a, const GmRows& b, const char* const* gm)
{
    const auto spanOf = [gm](const GmRows& rows) {
        const char* const begin = gm[rows.origin];
        return Span{begin, begin + rows.stride * (rows.rows - 1) + rows.rowBytes};
    };
    if (!spanOf(a).Overlaps(spanOf(b))) {
        return false;
    }
    if (a.stride != b.stride || a.stride <= 0) {
        return true;
    }
    int64_t distance = (gm[b.origin] - gm[a.origin]) % a.stride;
    distance += distance < 0 ? a.stride : 0;
    return distance < a.rowBytes || distance + b.rowBytes > a.stride;
}

bool Plan::Fits(const char* const* gm) const
{
    for (const GmRows& write : writes_) {
        for (const GmRows& read : reads_) {
            if (Meet(write, read, gm)) {
                return false;
            }
        }
        for (const GmRows& other : writes_) {
            if (&other != &write && Meet(write, other, gm)) {
                return false;
            }
        }
    }
    return true;
}

uint64_t Plan::Bytes() const
{
    return instructions_.size() * sizeof(Instruction) + links_.size() * sizeof(ChainLink) +
           steps_.size() * sizeof(Step) + groups_.size() * sizeof(StepGroup) + relocations_.size() * sizeof(Relocation);
}

void Plan::Run(const char* const* gm, Prefetcher& prefetcher)
{
    for (const Relocation& relocation : relocations_) {
        *relocation.place = const_cast<char*>(gm[relocation.origin]) + relocation.offset;
    }
    const bool idle = prefetcher.Idle();
    if (!idle) {
        prefetcher.Spread(turns_);
    }
    for (const StepGroup& group : groups_) {
        const Step* const steps = &steps_[group.first];
        for (uint32_t begin = 0; begin < group.units; begin += group.strip) {
            const uint32_t end = group.units - begin < group.strip ? group.units : begin + group.strip;
            for (uint32_t k = 0; k < group.count; ++k) {
                const Step& step = steps[k];
                if (step.chain) {
                    g_vectorUnit->runChain(&links_[step.first], begin * step.ratio, end * step.ratio);
                } else {
                    const Instruction& instruction = instructions_[step.first];
                    instruction.run(instruction, begin * step.ratio, end * step.ratio);
                }
                if (!idle) {
                    prefetcher.Turn();
                }
            }
        }
    }
}

void Plan::EndViews(const char* const* gm, std::vector<View>& views) const
{
    views = endViews_;
    for (View& view : views) {
        view.gm = gm[view.origin];
    }
}

}  // namespace host
}  // namespace AscendC
