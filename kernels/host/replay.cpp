#include "replay.h"

#include <algorithm>
#include <cstring>
#include <functional>

#include "launch.h"

namespace AscendC {
namespace host {

bool LaunchForm::TensorsOverlap() const
{
    for (uint32_t i = 0; i < tensorCount; ++i) {
        for (uint32_t j = 0; j < i; ++j) {
            if (tensors[i].Overlaps(tensors[j])) {
                return true;
            }
        }
    }
    return false;
}

// ---- what one core ran

bool Recording::Find(const char* address, Place& place) const
{
    for (uint32_t i = 0; i < launch_.tensorCount; ++i) {
        const Span& tensor = launch_.tensors[i];
        if (tensor.begin <= address && address < tensor.end) {
            place = {i, static_cast<uint64_t>(address - tensor.begin)};
            return true;
        }
    }
    return false;
}

void Recording::Add(const Step& step)
{
    if (bytes_ > MAX_BYTES) {
        good_ = false;
        return;
    }
    steps_.push_back(step);
    bytes_ += sizeof(Step);
}

void Recording::Ran(const std::shared_ptr<Plan>& plan, const char* const* gm, const Prefetcher& prefetcher)
{
    if (!good_) {
        return;
    }
    // Tiles mostly repeat one of the last plans.
    const auto known = std::find(plans_.rbegin(), plans_.rend(), plan);
    size_t index = static_cast<size_t>(plans_.rend() - known) - 1;
    if (known == plans_.rend()) {
        index = plans_.size();
        if (index == MAX_PLANS) {
            good_ = false;
            return;
        }
        plans_.push_back(plan);
        bytes_ += plan->Bytes();
    }
    for (const int32_t origin : plan->Origins()) {
        places_.emplace_back();
        good_ = good_ && Find(gm[origin], places_.back());
    }
    uint8_t aheads = 0;
    for (const Prefetcher::Ahead& ahead : prefetcher) {
        Place place;
        if (Find(ahead.next, place)) {  // behind the end nothing is worth fetching
            aheads_.push_back({place, ahead.rows, ahead.step});
            ++aheads;
        }
    }
    bytes_ += plan->Origins().size() * sizeof(Place) + aheads * sizeof(Ahead);
    Add({Kind::PLAN, aheads, static_cast<uint16_t>(index)});
}

void Recording::Wrote(char* ub, const void* value, uint32_t bytes)
{
    Write write{ub, bytes, {}};
    memcpy(write.value, value, bytes);
    writes_.push_back(write);
    bytes_ += sizeof(write);
    Add({Kind::WRITE, 0, 0});
}

void Recording::Replay(const Span* tensors, LoopWays ways) const
{
    const char* gm[MAX_ORIGINS];
    const Place* place = places_.data();
    const Ahead* ahead = aheads_.data();
    const Write* write = writes_.data();
    const auto addressOf = [tensors](const Place& at) { return tensors[at.tensor].begin + at.offset; };
    for (const Step& step : steps_) {
        if (step.kind == Kind::PLAN) {
            Plan& plan = *plans_[step.plan];
            for (const int32_t origin : plan.Origins()) {
                gm[origin] = addressOf(*place++);
            }
            Prefetcher prefetcher;
            for (uint32_t i = 0; i < step.aheads; ++i, ++ahead) {
                prefetcher.Add(addressOf(ahead->place), ahead->rows, ahead->step);
            }
            plan.Run(gm, prefetcher, ways);
        } else if (step.kind == Kind::WRITE) {
            memcpy(write->ub, write->value, write->bytes);
            ++write;
        } else {
            WaitForAllBlocks();
        }
    }
}

// ---- the launches of one core

bool Replays::Replay(const LaunchForm& launch, uint32_t blockIdx)
{
    const uint64_t hash = std::hash<std::string_view>()(launch.key) + blockIdx;
    Known& known = known_[hash];
    if (known.blockIdx != blockIdx || known.key != launch.key) {
        bytes_ -= known.recording == nullptr ? 0 : known.recording->Bytes();
        known = {std::string(launch.key), blockIdx, ++now_, true, nullptr};
        Forget();
        return false;
    }
    known.used = ++now_;
    if (known.recording != nullptr) {
        known.recording->Replay(launch.tensors, launch.ways);
        return true;
    }
    if (known.replays) {
        known.replays = false;  // until it ends well
        current_ = std::make_unique<Recording>(launch);
        currentHash_ = hash;
    }
    return false;
}

void Replays::Keep()
{
    if (current_ != nullptr && current_->IsGood()) {
        bytes_ += current_->Bytes();
        known_[currentHash_].recording = std::move(current_);
        Forget();
    }
    current_.reset();
}

// The launches that have not come for longest, as long as there are too many.
void Replays::Forget()
{
    while (known_.size() > MAX_LAUNCHES || bytes_ > MAX_BYTES) {
        const auto oldest = std::min_element(
            known_.begin(), known_.end(), [](const auto& a, const auto& b) { return a.second.used < b.second.used; });
        bytes_ -= oldest->second.recording == nullptr ? 0 : oldest->second.recording->Bytes();
        known_.erase(oldest);
    }
}

}  // namespace host
}  // namespace AscendC
