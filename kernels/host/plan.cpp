#include "plan.h"

namespace AscendC {
namespace host {

bool Plan::Fits(const char* const* gm) const
{
    const auto spanOf = [gm](const GmSpan& span) { return Span{gm[span.origin], gm[span.origin] + span.bytes}; };
    for (const GmSpan& write : writes_) {
        for (const GmSpan& read : reads_) {
            if (spanOf(write).Overlaps(spanOf(read))) {
                return false;
            }
        }
        for (const GmSpan& other : writes_) {
            if (&other != &write && spanOf(write).Overlaps(spanOf(other))) {
                return false;
            }
        }
    }
    return true;
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
