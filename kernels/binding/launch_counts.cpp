#include "binding/launch_counts.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string_view>
#include <utility>
#include <vector>

namespace ms_ascend_ops::binding {
namespace {

constexpr size_t SLOTS = 2048, MOST = SLOTS / 2;
constexpr uint8_t ABSENT_INPUT = 0xFF, NO_ELEMENTS = 0xFE;

// A bucket is an operator with dtypes, ranks and the binary logarithms of the rounded dims of its inputs. Without any
// of that it is "other".
struct Key {
    const Op* op = nullptr;
    size_t size = 0;
    std::array<uint8_t, MAX_TENSORS*(MAX_RANK + 2)> text{};

    Key() = default;
    Key(const Op& of, const TensorDesc* inputs) : op(&of)
    {
        const size_t count = of.Def().inputs.size();
        for (size_t i = 0; i < count; ++i) {
            if (!inputs[i].IsGiven()) {
                text[size++] = ABSENT_INPUT;
                continue;
            }
            text[size++] = static_cast<uint8_t>(inputs[i].dtype);
            text[size++] = static_cast<uint8_t>(inputs[i].rank);
            for (int32_t j = 0; j < inputs[i].rank; ++j) {
                const auto dim = static_cast<uint64_t>(inputs[i].dims[j]);
                text[size++] =
                    dim == 0 ? NO_ELEMENTS : static_cast<uint8_t>(dim == 1 ? 0 : 64 - __builtin_clzll(dim - 1));
            }
        }
    }

    bool operator==(const Key& other) const
    {
        return op == other.op && size == other.size && std::memcmp(text.data(), other.text.data(), size) == 0;
    }
    bool operator<(const Key& other) const
    {
        return std::make_pair(op, std::string_view(reinterpret_cast<const char*>(text.data()), size)) <
               std::make_pair(other.op, std::string_view(reinterpret_cast<const char*>(other.text.data()), other.size));
    }
    size_t Hash() const
    {
        auto hash = reinterpret_cast<uintptr_t>(op);
        for (size_t i = 0; i < size; i += sizeof(uint64_t)) {  // the bytes behind the end are zero
            uint64_t part;
            std::memcpy(&part, text.data() + i, std::min(sizeof(part), text.size() - i));
            hash = (hash ^ part) * 0x9E3779B97F4A7C15U;
        }
        return hash >> 32U;
    }
    std::string Text() const
    {
        if (size == 0) {
            return "other";
        }
        std::string result;
        for (size_t i = 0; i < size;) {
            result += result.empty() ? "" : " ";
            if (text[i] == ABSENT_INPUT) {
                result += "-";
                ++i;
                continue;
            }
            result += std::string(NameOf(static_cast<DataType>(text[i]))) + "[";
            const uint8_t rank = text[i + 1];
            i += 2;
            for (uint8_t j = 0; j < rank; ++j, ++i) {
                result += (j == 0 ? "" : ",") + std::to_string(text[i] == NO_ELEMENTS ? 0 : uint64_t{1} << text[i]);
            }
            result += "]";
        }
        return result;
    }
};

// Written by one thread, and read by whoever asks.
struct Entry {
    explicit Entry(const Key& of) : key(of) {}

    static void Add(std::atomic<uint64_t>& to, uint64_t value)
    {
        to.store(to.load(std::memory_order_relaxed) + value, std::memory_order_relaxed);
    }

    const Key key;
    std::array<std::atomic<uint64_t>, LAUNCH_BOUNDS_NS.size() + 1> calls{};
    std::atomic<uint64_t> nanoseconds{0}, bytes{0}, failures{0};
};

class OfThread;

// Never destroyed: threads end after the library's own objects do.
struct Threads {
    std::mutex mutex;
    std::vector<OfThread*> running;
    std::map<Key, LaunchCounts> ended;
};
Threads& AllThreads()
{
    static auto& all = *new Threads;
    return all;
}

class OfThread {
public:
    OfThread()
    {
        Threads& all = AllThreads();
        const std::lock_guard lock(all.mutex);
        all.running.push_back(this);
    }
    OfThread(const OfThread&) = delete;
    OfThread& operator=(const OfThread&) = delete;
    ~OfThread()
    {
        Threads& all = AllThreads();
        const std::lock_guard lock(all.mutex);
        all.running.erase(std::find(all.running.begin(), all.running.end(), this));
        AddTo(all.ended);
    }

    Entry& Of(const Key& key)
    {
        size_t slot = key.Hash() % SLOTS;
        for (; slots_[slot] != nullptr; slot = (slot + 1) % SLOTS) {
            if (slots_[slot]->key == key) {
                return *slots_[slot];
            }
        }
        if (entries_.size() >= MOST && key.size != 0) {
            Key other;
            other.op = key.op;
            return Of(other);
        }
        const std::lock_guard lock(mutex_);
        entries_.push_back(std::make_unique<Entry>(key));
        return *(slots_[slot] = entries_.back().get());
    }

    void AddTo(std::map<Key, LaunchCounts>& sums)
    {
        const std::lock_guard lock(mutex_);
        for (const auto& entry : entries_) {
            LaunchCounts& sum = sums[entry->key];
            for (size_t i = 0; i < sum.calls.size(); ++i) {
                sum.calls[i] += entry->calls[i].load(std::memory_order_relaxed);
            }
            sum.nanoseconds += entry->nanoseconds.load(std::memory_order_relaxed);
            sum.bytes += entry->bytes.load(std::memory_order_relaxed);
            sum.failures += entry->failures.load(std::memory_order_relaxed);
        }
    }

private:
    std::mutex mutex_;
    std::vector<std::unique_ptr<Entry>> entries_;
    std::array<Entry*, SLOTS> slots_{};
};

}  // namespace

void CountLaunch(const Op& op, const TensorDesc* inputs, uint64_t bytes, uint64_t nanoseconds, bool failed)
{
    thread_local OfThread mine;
    Entry& entry = mine.Of(Key(op, inputs));
    if (failed) {
        Entry::Add(entry.failures, 1);
        return;
    }
    const auto bound = std::lower_bound(LAUNCH_BOUNDS_NS.begin(), LAUNCH_BOUNDS_NS.end(), nanoseconds);
    Entry::Add(entry.calls[bound - LAUNCH_BOUNDS_NS.begin()], 1);
    Entry::Add(entry.nanoseconds, nanoseconds);
    Entry::Add(entry.bytes, bytes);
}

void VisitLaunchCounts(const std::function<void(const Op&, const std::string& bucket, const LaunchCounts&)>& visit)
{
    std::map<Key, LaunchCounts> sums;
    {
        Threads& all = AllThreads();
        const std::lock_guard lock(all.mutex);
        sums = all.ended;
        for (OfThread* thread : all.running) {
            thread->AddTo(sums);
        }
    }
    for (const auto& [key, counts] : sums) {
        visit(*key.op, key.Text(), counts);
    }
}

}  // namespace ms_ascend_ops::binding
