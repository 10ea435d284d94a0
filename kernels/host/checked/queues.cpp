#include "checked/queues.h"

#include "checked/rules.h"

namespace AscendC {
namespace host {
namespace {

constexpr uint32_t MAX_QUEUE_BUFFERS = 8;  // of one TPosition: as many as event ids
constexpr uint32_t MAX_BUFFERS = 64;       // of a kernel
constexpr int32_t MAX_EVENT_ID = 7;

}  // namespace

void Queues::Init(const InitEvent& event, LocalMemory& memory)
{
    const Buffer& buffer = BufferOf(event.core, event.first);
    slots_.resize(event.first + event.count - 1);
    if (event.usedBytes > UB_BYTES) {
        Violation(Rule::UB_CAPACITY, event, "%u buffers of %u bytes end at byte %u, a kernel may use %u", event.count,
                  buffer.bytes, event.usedBytes, UB_BYTES);
    }
    buffers_ += event.count;
    if (buffers_ > MAX_BUFFERS) {
        Violation(Rule::BUFFER_COUNT, event, "%u buffers", buffers_);
    }
    if (buffer.isQueue) {
        uint32_t& count = queueBuffers_[static_cast<uint32_t>(buffer.position)];
        count += event.count;
        if (count > MAX_QUEUE_BUFFERS) {
            Violation(Rule::QUEUE_BUFFERS, event, "%u buffers in the queues of %s", count, NameOf(buffer.position));
        }
    }
    memory.Forget(buffer.offset, buffer.bytes * event.count);
}

// Does what TPipe::Reset does: waits for the buffers that are free, and for nothing else.
void Queues::Reset(const Event& event, Order& order)
{
    for (uint32_t i = 0; i < slots_.size(); ++i) {
        const Buffer& buffer = BufferOf(event.core, i + 1);
        if (!buffer.live || !buffer.isQueue) {
            continue;
        }
        if (slots_[i].state != State::FREE) {
            Violation(Rule::QUEUE_LEAK, event, "slot %u of the queue from %s:%u was allocated at %s:%u and not freed",
                      buffer.slot, ShortPath(buffer.where.file), buffer.where.line, ShortPath(slots_[i].where.file),
                      slots_[i].where.line);
        }
        order.Wait(buffer.producer, slots_[i].freed);
    }
    for (uint32_t& count : queueBuffers_) {
        count = 0;
    }
    buffers_ = 0;
}

void Queues::CheckUse(const Event& event, const LocalOperand& operand) const
{
    const Origin origin = operand.origin;
    if (origin.buffer == 0) {
        return;  // LocalMemory::Bounds says so
    }
    const Buffer& buffer = BufferOf(event.core, origin.buffer);
    if (!buffer.live) {
        Violation(Rule::UB_FREED, event, "a tensor of the buffer from %s:%u, whose TPipe has been reset or has ended",
                  ShortPath(buffer.where.file), buffer.where.line);
    }
    if (!buffer.isQueue) {
        return;
    }
    const Slot& slot = slots_[origin.buffer - 1];
    if (slot.state == State::FREE || origin.use != buffer.use) {
        Violation(Rule::UB_FREED, event, "a tensor of the queue from %s:%u that was freed at %s:%u",
                  ShortPath(buffer.where.file), buffer.where.line, ShortPath(slot.where.file), slot.where.line);
    }
}

void Queues::Call(const QueueEvent& event, Order& order, LocalMemory& memory)
{
    switch (event.call) {
        case QueueCall::ALLOC:
            return Alloc(event, order, memory);
        case QueueCall::ENQUE:
            return EnQue(event, order);
        case QueueCall::DEQUE:
            return DeQue(event, order);
        case QueueCall::FREE:
            return Free(event, order, memory);
    }
}

void Queues::Alloc(const QueueEvent& event, Order& order, LocalMemory& memory)
{
    if (event.buffer == 0) {
        Violation(Rule::QUEUE_ALLOC, event, "the queue has no buffers: InitBuffer was not called");
    }
    const Buffer& buffer = BufferOf(event.core, event.buffer);
    if (!buffer.live) {
        Violation(Rule::UB_FREED, event, "the queue's TPipe has been reset or has ended");
    }
    Slot& slot = SlotOf(event.buffer);
    if (slot.state != State::FREE) {
        uint32_t used = 0;
        for (uint32_t i = 0; i < buffer.count; ++i) {
            used += SlotOf(buffer.queue + i).state == State::FREE ? 0 : 1;
        }
        Violation(Rule::QUEUE_ALLOC, event, "%u of the queue's %u buffers are in use, slot %u since %s:%u", used,
                  buffer.count, buffer.slot, ShortPath(slot.where.file), slot.where.line);
    }
    order.Wait(buffer.producer, slot.freed);
    slot.state = State::ALLOCATED;
    slot.where = event.where;
    memory.Forget(buffer.offset, buffer.bytes);
}

void Queues::EnQue(const QueueEvent& event, Order& order)
{
    CheckUse(event, event.local);
    const bool own = event.buffer != 0 && BufferOf(event.core, event.buffer).queue == event.queue &&
                     BufferOf(event.core, event.buffer).isQueue;
    if (!own) {
        Violation(Rule::QUEUE_ENQUE, event, "the tensor belongs to another queue or to a TBuf");
    }
    const Buffer& buffer = BufferOf(event.core, event.buffer);
    Slot& slot = SlotOf(event.buffer);
    if (slot.state == State::QUEUED) {
        Violation(Rule::QUEUE_ENQUE, event, "the tensor has been queued already, at %s:%u", ShortPath(slot.where.file),
                  slot.where.line);
    }
    std::deque<uint32_t>& queued = queued_[event.queue];
    if (queued.size() >= static_cast<size_t>(buffer.depth)) {
        Violation(Rule::QUEUE_DEPTH, event, "%zu tensors are queued, the depth is %d", queued.size(), buffer.depth);
    }
    slot.state = State::QUEUED;
    slot.where = event.where;
    slot.queued = order.Arrive(buffer.producer);
    queued.push_back(event.buffer);
}

void Queues::DeQue(const QueueEvent& event, Order& order)
{
    std::deque<uint32_t>& queued = queued_[event.queue];
    if (queued.empty() || event.buffer == 0) {
        Violation(Rule::QUEUE_DEQUE, event, "the queue is empty: on the chip the kernel waits forever");
    }
    const uint32_t number = queued.front();
    queued.pop_front();
    const Buffer& buffer = BufferOf(event.core, number);
    Slot& slot = SlotOf(number);
    slot.state = State::TAKEN;
    slot.where = event.where;
    order.Wait(buffer.consumer, slot.queued);
}

void Queues::Free(const QueueEvent& event, Order& order, LocalMemory& memory)
{
    const bool own = event.buffer != 0 && BufferOf(event.core, event.buffer).queue == event.queue &&
                     BufferOf(event.core, event.buffer).isQueue;
    if (!own) {
        Violation(Rule::QUEUE_FREE, event, "the tensor belongs to another queue or to a TBuf");
    }
    const Buffer& buffer = BufferOf(event.core, event.buffer);
    Slot& slot = SlotOf(event.buffer);
    if (slot.state == State::FREE || event.local.origin.use != buffer.use) {
        Violation(Rule::QUEUE_FREE, event, "the tensor was freed already, at %s:%u", ShortPath(slot.where.file),
                  slot.where.line);
    }
    if (slot.state == State::QUEUED) {
        Violation(Rule::QUEUE_FREE, event, "the tensor is still queued, since %s:%u", ShortPath(slot.where.file),
                  slot.where.line);
    }
    slot.state = State::FREE;
    slot.where = event.where;
    slot.freed = order.Arrive(buffer.consumer);
    memory.Forget(buffer.offset, buffer.bytes);
}

void Queues::Sync(const SyncEvent& event, Order& order)
{
    switch (event.call) {
        case SyncCall::SYNC_ALL:  // begins with PipeBarrier<PIPE_ALL>
            order.Barrier();
            return;
        case SyncCall::PIPE_BARRIER:
            if (event.barrier == PIPE_S) {
                Violation(Rule::BARRIER_PIPE, event, "PipeBarrier<PIPE_S>");
            }
            if (event.barrier == PIPE_ALL) {
                order.Barrier();
            } else {
                order.Barrier(event.barrier);
            }
            return;
        default:
            break;
    }
    if (event.id < 0 || event.id > MAX_EVENT_ID) {
        Violation(Rule::EVENT_ID, event, "event id %d", event.id);
    }
    const std::pair<HardEvent, int32_t> key{event.event, event.id};
    const auto flag = flags_.find(key);
    if (event.call == SyncCall::SET_FLAG) {
        if (flag != flags_.end()) {
            const Where where = setAt_[key];
            Violation(Rule::FLAG_PAIR, event, "flag %s %d was set at %s:%u and has not been waited for",
                      NameOf(event.event), event.id, ShortPath(where.file), where.line);
        }
        flags_[key] = order.Arrive(ProducerOf(event.event));
        setAt_[key] = event.where;
        return;
    }
    if (flag == flags_.end()) {
        Violation(Rule::FLAG_PAIR, event, "flag %s %d has not been set: on the chip the kernel waits forever",
                  NameOf(event.event), event.id);
    }
    order.Wait(ConsumerOf(event.event), flag->second);
    flags_.erase(flag);
}

void Queues::EventId(const EventIdEvent& event) const
{
    if (event.id < 0 || event.id > MAX_EVENT_ID) {
        Violation(Rule::EVENT_ID, event, "no event id is left for %s", NameOf(event.event));
    }
}

void Queues::End(const Event& event) const
{
    for (uint32_t i = 0; i < slots_.size(); ++i) {
        const Buffer& buffer = BufferOf(event.core, i + 1);
        if (buffer.isQueue && buffer.live && slots_[i].state != State::FREE) {
            Event call = event;
            call.where = slots_[i].where;
            call.name = slots_[i].state == State::QUEUED  ? "EnQue"
                        : slots_[i].state == State::TAKEN ? "DeQue"
                                                          : "AllocTensor";
            Violation(Rule::QUEUE_LEAK, call, "slot %u of the queue from %s:%u is %s when the kernel ends", buffer.slot,
                      ShortPath(buffer.where.file), buffer.where.line,
                      slots_[i].state == State::QUEUED ? "queued" : "not freed");
        }
    }
    for (const auto& [key, where] : setAt_) {
        if (flags_.count(key) > 0) {
            Event call = event;
            call.where = where;
            call.name = "SetFlag";
            Violation(Rule::FLAG_PAIR, call, "flag %s %d is set when the kernel ends: nothing waits for it",
                      NameOf(key.first), key.second);
        }
    }
}

}  // namespace host
}  // namespace AscendC
