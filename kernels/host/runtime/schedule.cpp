#include "runtime/schedule.h"

#include <algorithm>

namespace AscendC {
namespace host {

namespace {

// A loop takes so many strips at once where it prefetches.
constexpr uint32_t LOOP_STRIPS = 2;
// Instructions without code take so many: a call each, and results that go through memory.
constexpr uint32_t INTERPRETED_STRIPS = 4;

}  // namespace

// Do they meet? Rows as far apart as others may lie between them.
bool Schedule::Meet(const GmRows& a, const GmRows& b, const char* const* gm)
{
    const auto spanOf = [gm](const GmRows& some) {
        const char* const begin = gm[some.origin];
        return Span{begin, begin + some.rows.stride * (some.rows.rows - 1) + some.rows.rowBytes};
    };
    if (!spanOf(a).Overlaps(spanOf(b))) {
        return false;
    }
    return a.rows.stride != b.rows.stride ||
           !ColumnsAreApart(gm[b.origin] - gm[a.origin], a.rows.rowBytes, b.rows.rowBytes, a.rows.stride);
}

bool Schedule::Fits(const char* const* gm) const
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

// Does it write pieces of rows that lie apart, and begin or end within lines? Of such a line, one part goes past the
// caches long before the other, and each takes as long as some lines: where pieces are short, that is more than
// non-temporal stores save, of all that the schedule writes.
bool Schedule::SplitsLines(const char* const* gm) const
{
    constexpr uint32_t LEAST = 1024;  // shorter ones are what loops over rows store
    constexpr uint32_t LONG = 12 * 1024;
    return std::any_of(writes_.begin(), writes_.end(), [gm](const GmRows& write) {
        const Rows& rows = write.rows;
        return !rows.IsStretch() && rows.rowBytes >= LEAST && rows.rowBytes < LONG &&
               (reinterpret_cast<uintptr_t>(gm[write.origin]) | rows.stride | rows.rowBytes) % LINE_BYTES != 0;
    });
}

uint64_t Schedule::Bytes() const
{
    return instructions_.size() * sizeof(Instruction) + bases_.size() * sizeof(char*) +
           steps_.size() * (sizeof(Step) + sizeof(LoopFunction)) + groups_.size() * sizeof(StepGroup) +
           relocations_.size() * sizeof(Relocation);
}

void Schedule::Run(const char* const* gm, Prefetcher& prefetcher, LoopVariant variant)
{
    for (const Relocation& relocation : relocations_) {
        *relocation.place = const_cast<char*>(gm[relocation.origin]) + relocation.offset;
    }
    variant.nonTemporal = variant.nonTemporal && !SplitsLines(gm);
    LoopAhead ahead;
    Prefetcher* between = nullptr;
    if (!prefetcher.Idle()) {
        variant.prefetches = LookAhead(gm, prefetcher, variant.nonTemporal, ahead);
        if (variant.prefetches == 0 && reduces_) {
            prefetcher.Spread(stripSteps_);
            between = &prefetcher;
        } else if (variant.prefetches == 0) {
            prefetcher.FetchBegins();
        }
    }
    for (size_t i = 0; i < groups_.size();) {
        const StepGroup& group = groups_[i];
        const size_t behind = i + (variant.nonTemporal ? group.roundRobin : 1);
        uint32_t count = 0;
        for (; i < behind; ++i) {
            count += groups_[i].count;
        }
        RunGroup(group, count, variant, ahead, between);
    }
    if (hasLoops_ && !requested_[variant.Number()]) {
        RequestLoops(variant);
    }
}

uint32_t Schedule::LookAhead(const char* const* gm, const Prefetcher& prefetcher, bool nonTemporal,
                             LoopAhead& ahead) const
{
    if (cost_ == 0 || !prefetcher.InStretches()) {
        return 0;
    }
    const Prefetcher::Ahead& first = *prefetcher.begin();
    bool outputs = !nonTemporal;
    bool any = false;
    uint32_t count = 0;
    for (const Prefetcher::Ahead& input : prefetcher) {
        ahead.stretches[count++] = input.next;
        outputs = outputs && input.step == first.step;  // or it is not known where they will lie
    }
    ahead.bytes = first.rows.Bytes();
    ahead.rate = (ahead.bytes << LoopAhead::RATE_BITS) / cost_ + 1;
    for (const GmRows& write : writes_) {
        const bool alike = write.rows.IsStretch() && write.rows.Bytes() == ahead.bytes;
        if (outputs && alike && count < LoopAhead::MAX_STRETCHES) {
            ahead.stretches[count++] = gm[write.origin] + first.step;
            any = true;
        }
    }
    return reduces_ || any ? count : 0;  // one pass is prefetched by the CPU itself
}

// Runs the first `count` steps from those of the group on, strip by strip. `between` fetches between two steps, or is
// null.
void Schedule::RunGroup(const StepGroup& group, uint32_t count, LoopVariant variant, LoopAhead& ahead,
                        Prefetcher* between)
{
    const Step* const steps = &steps_[group.first];
    if (count == 1 && steps->code == nullptr && group.strip >= group.iterations && between == nullptr) {
        RunStep(*steps, 0, group.iterations);  // of few elements, as with the sums of a norm
        return;
    }
    functions_[0] = FunctionOf(*steps, variant);
    // One loop keeps nothing in memory between two steps, and needs no strips but to prefetch.
    const bool one = functions_[0] != nullptr && steps->length == count;
    if (one && between == nullptr) {
        RunLoop(functions_[0], *steps, 0, group.iterations, variant, ahead);
        return;
    }
    const uint32_t strips =
        one && group.iterations > group.strip ? LOOP_STRIPS : (functions_[0] == nullptr ? INTERPRETED_STRIPS : 1);
    const uint32_t most = between == nullptr && IsWide(group, count) ? group.wide : strips * group.strip;
    for (uint32_t begin = 0; begin < group.iterations; begin += most) {
        const uint32_t end = group.iterations - begin < most ? group.iterations : begin + most;
        for (uint32_t k = 0; k < count;) {
            const Step& step = steps[k];
            if (begin == 0 && k > 0) {  // not before: code depends on values that earlier steps may have written
                functions_[k] = FunctionOf(step, variant);
            }
            const uint32_t length = functions_[k] == nullptr ? 1 : step.length;
            if (functions_[k] != nullptr) {
                RunLoop(functions_[k], step, begin, end, variant, ahead);
            } else {
                RunStep(step, begin, end);
                PrefetchFor(step, end - begin, variant, ahead);
            }
            if (between != nullptr) {
                between->Fetch(length * strips);
            }
            k += length;
        }
    }
}

bool Schedule::IsWide(const StepGroup& group, uint32_t count) const
{
    const Step* const steps = &steps_[group.first];
    return group.wide > group.strip && std::all_of(steps, steps + count, [](const Step& step) {
               return step.code == nullptr || step.code->Function() != nullptr;
           });
}

// Prefetches the lines that compiled code would prefetch over so many iterations.
void Schedule::PrefetchFor(const Step& step, uint32_t iterations, LoopVariant variant, LoopAhead& ahead)
{
    if (variant.prefetches > 0 && step.cost > 0) {
        ahead.Prefetch(static_cast<uint64_t>(step.cost) * iterations, variant.prefetches);
    }
}

void Schedule::RunStep(const Step& step, uint32_t begin, uint32_t end) const
{
    step.run(instructions_[step.instruction], begin * step.ratio, end * step.ratio);
}

void Schedule::RunLoop(LoopFunction loop, const Step& step, uint32_t begin, uint32_t end, LoopVariant variant,
                       LoopAhead& ahead) const
{
    const uint64_t done = ahead.done;
    loop(&bases_[step.bases], begin, end, &ahead);
    if (ahead.done == done) {  // there may be no code yet that prefetches
        PrefetchFor(step, end - begin, variant, ahead);
    }
}

// It requests them when it has run: only then do all operands of its loops have their addresses.
void Schedule::RequestLoops(LoopVariant variant)
{
    workDone_ += work_ + 1;
    if (workDone_ <= LoopThreshold()) {
        return;
    }
    requested_[variant.Number()] = true;
    for (const Step& step : steps_) {
        if (step.code != nullptr) {
            step.code->Request(variant, &bases_[step.bases]);
        }
    }
}

LoopFunction Schedule::FunctionOf(const Step& step, LoopVariant variant) const
{
    if (step.code == nullptr) {
        return nullptr;
    }
    return variant.Number() == 0 ? step.code->Function() : step.code->Function(variant, &bases_[step.bases]);
}

void Schedule::EndViews(const char* const* gm, std::vector<View>& views) const
{
    views = endViews_;
    for (View& view : views) {
        view.gm = gm[view.origin];
    }
}

}  // namespace host
}  // namespace AscendC
