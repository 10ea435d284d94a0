#include "runtime/trace_cache.h"

#include <algorithm>
#include <cstring>
#include <functional>

#include "runtime/executor.h"

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

// ---- the schedules that one core ran

bool RecordedLaunch::Find(const char* address, Place& place) const
{
    for (uint32_t i = 0; i < launch_.tensorCount; ++i) {
        const Span& tensor = launch_.tensors[i];
        if (tensor.Holds(address)) {
            place = {i, static_cast<uint64_t>(address - tensor.begin)};
            return true;
        }
    }
    return false;
}

void RecordedLaunch::Add(const Step& step)
{
    if (bytes_ > MAX_BYTES) {
        good_ = false;
        return;
    }
    steps_.push_back(step);
    bytes_ += sizeof(Step);
}

void RecordedLaunch::Ran(const std::shared_ptr<Schedule>& schedule, const char* const* gm, const Prefetcher& prefetcher)
{
    if (!good_) {
        return;
    }
    // Tiles mostly repeat one of the last schedules.
    const auto known = std::find(schedules_.rbegin(), schedules_.rend(), schedule);
    size_t index = static_cast<size_t>(schedules_.rend() - known) - 1;
    if (known == schedules_.rend()) {
        index = schedules_.size();
        if (index == MAX_SCHEDULES) {
            good_ = false;
            return;
        }
        schedules_.push_back(schedule);
        bytes_ += schedule->Bytes();
    }
    for (const int32_t origin : schedule->Origins()) {
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
    bytes_ += schedule->Origins().size() * sizeof(Place) + aheads * sizeof(Ahead);
    Add({Kind::SCHEDULE, aheads, static_cast<uint16_t>(index)});
}

void RecordedLaunch::Wrote(char* ub, const void* value, uint32_t bytes)
{
    Write write{ub, bytes, {}};
    memcpy(write.value, value, bytes);
    writes_.push_back(write);
    bytes_ += sizeof(write);
    Add({Kind::WRITE, 0, 0});
}

void RecordedLaunch::Multiplied(const Product& product)
{
    PlacedProduct placed{product, {}};
    const char* const addresses[] = {product.a.data, product.b.data, product.c.data,
                                     reinterpret_cast<const char*>(product.bias)};
    for (uint32_t i = 0; i < 4; ++i) {
        good_ = good_ && (addresses[i] == nullptr || Find(addresses[i], placed.places[i]));
    }
    products_.push_back(placed);
    bytes_ += sizeof(placed);
    Add({Kind::PRODUCT, 0, 0});
}

void RecordedLaunch::Replay(const Span* tensors, LoopVariant variant) const
{
    const char* gm[MAX_ORIGINS];
    const Place* place = places_.data();
    const Ahead* ahead = aheads_.data();
    const Write* write = writes_.data();
    const PlacedProduct* placed = products_.data();
    const auto addressOf = [tensors](const Place& at) { return tensors[at.tensor].begin + at.offset; };
    for (const Step& step : steps_) {
        if (step.kind == Kind::SCHEDULE) {
            Schedule& schedule = *schedules_[step.schedule];
            for (const int32_t origin : schedule.Origins()) {
                gm[origin] = addressOf(*place++);
            }
            Prefetcher prefetcher;
            for (uint32_t i = 0; i < step.aheads; ++i, ++ahead) {
                prefetcher.Add(addressOf(ahead->place), ahead->rows, ahead->step);
            }
            schedule.Run(gm, prefetcher, variant);
        } else if (step.kind == Kind::WRITE) {
            memcpy(write->ub, write->value, write->bytes);
            ++write;
        } else if (step.kind == Kind::PRODUCT) {
            Product product = placed->product;
            product.a.data = const_cast<char*>(addressOf(placed->places[0]));
            product.b.data = const_cast<char*>(addressOf(placed->places[1]));
            product.c.data = const_cast<char*>(addressOf(placed->places[2]));
            product.bias =
                product.bias == nullptr ? nullptr : reinterpret_cast<const float*>(addressOf(placed->places[3]));
            Multiply(product);
            ++placed;
        } else {
            TheExecutor().WaitForAllBlocks();
        }
    }
}

// ---- the launches of one core

bool TraceCache::Replay(const LaunchForm& launch, uint32_t blockIdx)
{
    const uint64_t hash = std::hash<std::string_view>()(launch.key) + blockIdx;
    Known& known = known_[hash];
    if (known.blockIdx != blockIdx || known.key != launch.key) {
        bytes_ -= known.recording == nullptr ? 0 : known.recording->Bytes();
        known = {std::string(launch.key), blockIdx, ++now_, true, nullptr};
        Evict();
        return false;
    }
    known.used = ++now_;
    if (known.recording != nullptr) {
        known.recording->Replay(launch.tensors, launch.variant);
        return true;
    }
    if (known.isReplayable) {
        known.isReplayable = false;  // until it ends well
        current_ = std::make_unique<RecordedLaunch>(launch);
        currentHash_ = hash;
    }
    return false;
}

void TraceCache::Keep()
{
    if (current_ != nullptr && current_->IsGood()) {
        bytes_ += current_->Bytes();
        known_[currentHash_].recording = std::move(current_);
        Evict();
    }
    current_.reset();
}

// Drops the launches that have not come for longest, as long as there are too many.
void TraceCache::Evict()
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
