#include "checked/local_memory.h"

#include <cstring>
#include <string>

#include "checked/rules.h"

namespace AscendC {
namespace host {

void LocalMemory::Forget(uint32_t offset, uint32_t bytes)
{
    if (offset < UB_BYTES) {
        std::memset(written_.data() + offset, 0, bytes < UB_BYTES - offset ? bytes : UB_BYTES - offset);
    }
}

bool LocalMemory::IsDefined(uint32_t offset, uint32_t bytes) const
{
    return std::memchr(written_.data() + offset, 0, bytes) == nullptr;
}

void LocalMemory::Bounds(const Event& event, const LocalOperand& operand, int64_t offset, uint32_t bytes) const
{
    const Origin origin = operand.origin;
    const int64_t tensorEnd = int64_t{operand.offset} + operand.bytes;
    if (origin.buffer == 0) {
        Violation(Rule::UB_BOUNDS, event, "a tensor at byte %u of the Unified Buffer belongs to no buffer",
                  operand.offset);
    }
    const Buffer& buffer = BufferOf(event.core, origin.buffer);
    const int64_t begin = offset - buffer.offset;
    if (begin < 0 || begin + bytes > buffer.bytes || offset + bytes > tensorEnd) {
        Violation(
            Rule::UB_BOUNDS, event,
            "bytes %ld to %ld of the %u of the buffer from %s:%u (%s, slot %u); the tensor holds bytes %ld to %ld",
            static_cast<long>(begin), static_cast<long>(begin + bytes), buffer.bytes, ShortPath(buffer.where.file),
            buffer.where.line, NameOf(buffer.position), buffer.slot, static_cast<long>(operand.offset) - buffer.offset,
            static_cast<long>(tensorEnd - buffer.offset));
    }
}

void LocalMemory::Check(const Event& event, Order& order, const Block& block, uint32_t index, bool writes) const
{
    const uint32_t self = IndexOf(event.pipe);
    for (uint32_t q = 0; q < PIPES; ++q) {
        const bool sameCopyPipe = q == self && q == IndexOf(PIPE_MTE2);
        if (q == self && !sameCopyPipe) {
            continue;  // in order
        }
        uint32_t last = block.write[q];
        const char* earlier = "wrote";
        if (writes && !sameCopyPipe && block.read[q] > last) {
            last = block.read[q];
            earlier = "read";
        }
        if (last == 0 || order.Knows(event.pipe, PipeOf(q), last)) {
            continue;
        }
        const Event& other = order.Call(last);
        if (sameCopyPipe && !writes) {
            continue;
        }
        Violation(sameCopyPipe ? Rule::MTE_OVERLAP : Rule::PIPE_HAZARD, event,
                  "%s on %s %s byte %u of the Unified Buffer, which %s on %s at %s:%u %s; nothing makes %s wait for %s",
                  event.name, NameOf(event.pipe), writes ? "writes" : "reads", index * ONE_BLK_SIZE, other.name,
                  NameOf(other.pipe), ShortPath(other.where.file), other.where.line, earlier, NameOf(event.pipe),
                  NameOf(other.pipe));
    }
}

bool LocalMemory::Read(const Event& event, uint32_t number, Order& order, uint32_t offset, uint32_t bytes, bool use)
{
    const auto* empty = static_cast<const uint8_t*>(std::memchr(written_.data() + offset, 0, bytes));
    if (empty != nullptr && use) {
        const auto at = static_cast<uint32_t>(empty - written_.data());
        const uint32_t writer = blocks_[at / ONE_BLK_SIZE].write[IndexOf(PIPE_V)];
        const Event* last = writer == 0 ? nullptr : &order.Call(writer);
        Violation(Rule::UB_UNINITIALIZED, event,
                  "byte %u of the Unified Buffer holds no value: byte %u of the %u that are read from byte %u on%s%s",
                  at, at - offset, bytes, offset,
                  last == nullptr ? "" : ". What was there came from undefined values, by ",
                  last == nullptr ? ""
                                  : (std::string(last->name) + " at " + ShortPath(last->where.file) + ":" +
                                     std::to_string(last->where.line))
                                        .c_str());
    }
    const uint32_t self = IndexOf(event.pipe);
    for (uint32_t i = offset / ONE_BLK_SIZE; i <= (offset + bytes - 1) / ONE_BLK_SIZE; ++i) {
        Check(event, order, blocks_[i], i, false);
        blocks_[i].read[self] = number;
    }
    return empty == nullptr;
}

void LocalMemory::Write(const Event& event, uint32_t number, Order& order, uint32_t offset, uint32_t bytes)
{
    std::memset(written_.data() + offset, 1, bytes);
    const uint32_t self = IndexOf(event.pipe);
    for (uint32_t i = offset / ONE_BLK_SIZE; i <= (offset + bytes - 1) / ONE_BLK_SIZE; ++i) {
        // A call that has just touched this block itself (a piece of the same copy) does not wait for itself.
        if (blocks_[i].write[self] != number) {
            Check(event, order, blocks_[i], i, true);
        }
        blocks_[i].write[self] = number;
    }
}

}  // namespace host
}  // namespace AscendC
