#include "checked/global_memory.h"

#include <algorithm>
#include <cstring>

#include "checked/rules.h"

namespace AscendC {
namespace host {
namespace {

bool Touch(const GlobalSpan& a, const GlobalSpan& b)
{
    if (a.End() <= b.offset || b.End() <= a.offset) {
        return false;
    }
    for (uint32_t i = 0; i < a.rows; ++i) {
        const int64_t begin = static_cast<int64_t>(a.offset) + i * a.stride;
        const int64_t end = begin + a.rowBytes;
        // Only the rows of b that could reach [begin, end) are looked at.
        const int64_t start = static_cast<int64_t>(b.offset);
        if (b.rows == 1 || b.stride <= 0) {
            if (begin < start + b.rowBytes && start < end) {
                return true;
            }
            continue;
        }
        const int64_t last = (end - 1 - start) / b.stride;
        const int64_t row = last < 0 || end <= start ? -1 : std::min<int64_t>(last, b.rows - 1);
        if (row >= 0 && begin < start + row * b.stride + b.rowBytes) {
            return true;
        }
    }
    return false;
}

}  // namespace

const char* GlobalMemory::NameOfArgument(int32_t argument) const
{
    return argument == WORKSPACE ? "workspace" : launch_->arguments[argument].name;
}

void GlobalMemory::Begin(const LaunchInfo& launch)
{
    launch_ = &launch;
    phase_ = 0;
    regions_.clear();
    pending_.assign(launch.blockDim, {});
    const auto add = [this](int32_t argument, uint64_t bytes, uint8_t writer) {
        Region region{argument, {}, {}, {}, {}};
        region.writer.assign(bytes, writer);
        region.reader.assign(bytes, NEVER);
        region.atomic.assign(bytes, 0);
        region.phases.assign(bytes / ONE_BLK_SIZE + 1, 0);
        regions_.push_back(std::move(region));
    };
    for (uint32_t i = 0; i < launch.arguments.size(); ++i) {
        const Argument& argument = launch.arguments[i];
        if (!argument.output) {
            continue;
        }
        // An output that lies on an input holds that input's values.
        const bool inPlace = std::any_of(launch.arguments.begin(), launch.arguments.end(), [&](const Argument& other) {
            return !other.output && other.address == argument.address && other.bytes > 0;
        });
        add(static_cast<int32_t>(i), argument.bytes, inPlace ? BEFORE : NEVER);
    }
    if (launch.workspaceBytes > 0) {
        add(WORKSPACE, launch.workspaceBytes, NEVER);
    }
}

void GlobalMemory::CoreBegin(uint32_t core)
{
    pending_[core].clear();
}

GlobalMemory::Region* GlobalMemory::Find(int32_t argument)
{
    for (Region& region : regions_) {
        if (region.argument == argument) {
            return &region;
        }
    }
    return nullptr;
}

void GlobalMemory::Bounds(const Event& event, const GlobalOperand& operand, const GlobalSpan& span) const
{
    if (operand.argument == NO_ARGUMENT) {
        Violation(Rule::GM_BOUNDS, event, "%p lies in no argument of the kernel",
                  static_cast<const void*>(operand.address));
    }
    const uint64_t size =
        operand.argument == WORKSPACE ? launch_->workspaceBytes : launch_->arguments[operand.argument].bytes;
    const uint64_t end = span.End();
    if (static_cast<int64_t>(span.offset) < 0 || end > size) {
        Violation(Rule::GM_BOUNDS, event, "bytes %ld to %lu of %s, which has %lu", static_cast<long>(span.offset),
                  static_cast<unsigned long>(end), NameOfArgument(operand.argument), static_cast<unsigned long>(size));
    }
    if (operand.bytes > 0 && end - span.offset > operand.bytes) {
        Violation(Rule::GM_BOUNDS, event,
                  "%lu bytes from byte %lu of %s on; the size that SetGlobalBuffer gave leaves %lu",
                  static_cast<unsigned long>(end - span.offset), static_cast<unsigned long>(span.offset),
                  NameOfArgument(operand.argument), static_cast<unsigned long>(operand.bytes));
    }
}

// Brings the blocks that hold these bytes into the present phase.
void GlobalMemory::Enter(Region& region, uint64_t begin, uint64_t end) const
{
    for (uint64_t block = begin / ONE_BLK_SIZE; block <= (end - 1) / ONE_BLK_SIZE; ++block) {
        if (region.phases[block] == phase_) {
            continue;
        }
        region.phases[block] = phase_;
        const uint64_t last = std::min<uint64_t>((block + 1) * ONE_BLK_SIZE, region.writer.size());
        for (uint64_t i = block * ONE_BLK_SIZE; i < last; ++i) {
            region.writer[i] = region.writer[i] == NEVER ? NEVER : BEFORE;
            region.reader[i] = NEVER;
            region.atomic[i] = 0;
        }
    }
}

void GlobalMemory::CheckOrder(const Event& event, uint32_t number, Order& order, int32_t argument, bool writes,
                              const GlobalSpan& span)
{
    std::vector<Pending>& pending = pending_[event.core];
    pending.erase(std::remove_if(pending.begin(), pending.end(),
                                 [&](const Pending& item) { return item.number <= order.KnownToCopies(item.pipe); }),
                  pending.end());
    for (const Pending& item : pending) {
        if (item.argument != argument || !(item.writes || writes) || order.Knows(event.pipe, item.pipe, item.number) ||
            (item.pipe == event.pipe && item.writes != writes) || !Touch(item.span, span)) {
            continue;
        }
        const Event& other = order.Call(item.number);
        Violation(item.pipe == event.pipe ? Rule::MTE_OVERLAP : Rule::PIPE_HAZARD, event,
                  "%s %s bytes %lu to %lu of %s, some of which %s on %s at %s:%u %s; nothing makes %s wait for that",
                  event.name, writes ? "writes" : "reads", static_cast<unsigned long>(span.offset),
                  static_cast<unsigned long>(span.End()), NameOfArgument(argument), other.name, NameOf(other.pipe),
                  ShortPath(other.where.file), other.where.line, item.writes ? "wrote" : "read", NameOf(event.pipe));
    }
    pending.push_back({argument, number, event.pipe, writes, span});
}

// Reports an input that nobody has written, as far as writes to it are recorded.
void GlobalMemory::CheckWritten(const Event& event, int32_t argument, const GlobalSpan& span) const
{
    const auto written = TheDeviceHooks().written;
    if (written == nullptr) {
        return;
    }
    for (uint32_t row = 0; row < span.rows; ++row) {
        const uint64_t begin = span.offset + row * static_cast<uint64_t>(span.stride);
        const uint64_t count = written(launch_->arguments[argument].address + begin, span.rowBytes);
        if (count < span.rowBytes) {
            Violation(Rule::GM_UNINITIALIZED, event, "byte %lu of %s has not been written",
                      static_cast<unsigned long>(begin + count), NameOfArgument(argument));
        }
    }
}

void GlobalMemory::Read(const Event& event, uint32_t number, Order& order, const GlobalOperand& operand,
                        const GlobalSpan& span)
{
    if (launch_->arguments.empty() && operand.argument == NO_ARGUMENT) {
        return;  // nothing is known of this launch
    }
    Bounds(event, operand, span);
    Region* region = Find(operand.argument);
    if (region == nullptr) {
        CheckWritten(event, operand.argument, span);
        return;
    }
    const auto self = static_cast<uint8_t>(event.core + 1);
    for (uint32_t row = 0; row < span.rows; ++row) {
        const uint64_t begin = span.offset + row * static_cast<uint64_t>(span.stride);
        const uint64_t end = begin + span.rowBytes;
        Enter(*region, begin, end);
        for (uint64_t i = begin; i < end; ++i) {
            const uint8_t writer = region->writer[i];
            if (writer == NEVER) {
                Violation(Rule::GM_UNINITIALIZED, event, "byte %lu of %s has not been written",
                          static_cast<unsigned long>(i), NameOfArgument(operand.argument));
            }
            if (writer != BEFORE && writer != self) {
                Violation(Rule::GM_RACE, event, "reads byte %lu of %s, which core %d wrote without a SyncAll between",
                          static_cast<unsigned long>(i), NameOfArgument(operand.argument), writer - 1);
            }
            uint8_t& reader = region->reader[i];
            reader = reader == NEVER || reader == self ? self : SEVERAL;
        }
    }
    CheckOrder(event, number, order, operand.argument, false, span);
}

void GlobalMemory::Write(const Event& event, uint32_t number, Order& order, const GlobalOperand& operand,
                         const GlobalSpan& span, bool atomicFloat, bool atomic)
{
    if (launch_->arguments.empty() && operand.argument == NO_ARGUMENT) {
        return;
    }
    Bounds(event, operand, span);
    Region* region = Find(operand.argument);
    if (region == nullptr) {
        Violation(Rule::GM_INPUT, event, "writes to %s", NameOfArgument(operand.argument));
    }
    const auto self = static_cast<uint8_t>(event.core + 1);
    for (uint32_t row = 0; row < span.rows; ++row) {
        const uint64_t begin = span.offset + row * static_cast<uint64_t>(span.stride);
        const uint64_t end = begin + span.rowBytes;
        Enter(*region, begin, end);
        for (uint64_t i = begin; i < end; ++i) {
            uint8_t& writer = region->writer[i];
            const bool shared = writer != NEVER && writer != BEFORE && writer != self;
            if (atomic && writer == NEVER) {
                Violation(Rule::GM_UNINITIALIZED, event, "adds to byte %lu of %s, which has not been written",
                          static_cast<unsigned long>(i), NameOfArgument(operand.argument));
            }
            if (shared && atomicFloat && region->atomic[i] != 0) {
                Violation(Rule::ATOMIC_ORDER, event, "adds floats to byte %lu of %s, as core %d does",
                          static_cast<unsigned long>(i), NameOfArgument(operand.argument), writer - 1);
            }
            if (shared && !(atomic && region->atomic[i] != 0)) {
                Violation(Rule::GM_RACE, event, "writes byte %lu of %s, which core %d wrote without a SyncAll between",
                          static_cast<unsigned long>(i), NameOfArgument(operand.argument), writer - 1);
            }
            const uint8_t reader = region->reader[i];
            if (reader != NEVER && reader != self) {
                Violation(Rule::GM_RACE, event, "writes byte %lu of %s, which %s read without a SyncAll between",
                          static_cast<unsigned long>(i), NameOfArgument(operand.argument),
                          reader == SEVERAL ? "several cores" : "another core");
            }
            writer = self;
            region->atomic[i] = atomic ? 1 : 0;
        }
        NoteNeighbours(event, *region, begin, end);
        if (TheDeviceHooks().writes != nullptr && operand.argument != WORKSPACE) {
            TheDeviceHooks().writes(launch_->arguments[operand.argument].address + begin, span.rowBytes);
        }
    }
    CheckOrder(event, number, order, operand.argument, true, span);
}

// Another core has written into the same block or line in this phase.
void GlobalMemory::NoteNeighbours(const Event& event, const Region& region, uint64_t begin, uint64_t end) const
{
    const auto self = static_cast<uint8_t>(event.core + 1);
    const auto other = [&](uint64_t from, uint64_t to) {
        to = std::min<uint64_t>(to, region.writer.size());
        for (uint64_t i = from; i < to; ++i) {
            const uint8_t writer = region.writer[i];
            if (writer != NEVER && writer != BEFORE && writer != self && region.phases[i / ONE_BLK_SIZE] == phase_) {
                return true;
            }
        }
        return false;
    };
    const uint64_t firstBlock = begin / ONE_BLK_SIZE * ONE_BLK_SIZE;
    const uint64_t lastBlock = (end + ONE_BLK_SIZE - 1) / ONE_BLK_SIZE * ONE_BLK_SIZE;
    if (other(firstBlock, begin) || other(end, lastBlock)) {
        Note(Rule::NOTE_SHARED_BLOCK, event);
    } else if (other(begin / LINE * LINE, begin) || other(end, (end + LINE - 1) / LINE * LINE)) {
        Note(Rule::NOTE_SHARED_LINE, event);
    }
}

void GlobalMemory::End(const Event& event) const
{
    for (const Region& region : regions_) {
        if (region.argument == WORKSPACE || region.writer.empty()) {
            continue;
        }
        const auto* found = static_cast<const uint8_t*>(std::memchr(region.writer.data(), NEVER, region.writer.size()));
        if (found != nullptr) {
            const auto count = std::count(region.writer.begin(), region.writer.end(), NEVER);
            Violation(Rule::GM_UNWRITTEN, event,
                      "%ld of the %zu bytes of %s have not been written, the first is byte %ld",
                      static_cast<long>(count), region.writer.size(), NameOfArgument(region.argument),
                      static_cast<long>(found - region.writer.data()));
        }
    }
}

}  // namespace host
}  // namespace AscendC
