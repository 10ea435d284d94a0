/*!
 * Checks the queues, flags and event ids of one core.
 */
#ifndef ASCENDC_HOST_CHECKED_QUEUES_H
#define ASCENDC_HOST_CHECKED_QUEUES_H

#include <cstdint>
#include <deque>
#include <map>
#include <vector>

#include "checked/local_memory.h"
#include "checked/order.h"

namespace AscendC {
namespace host {

class Queues {
public:
    void Init(const InitEvent& event, LocalMemory& memory);
    void Reset(const Event& event, Order& order);
    void Call(const QueueEvent& event, Order& order, LocalMemory& memory);
    void Sync(const SyncEvent& event, Order& order);
    void EventId(const EventIdEvent& event) const;
    // Nothing is left over when the kernel ends.
    void End(const Event& event) const;

    // The tensor may be used now: allocated, from the present use of its buffer, of a TPipe that lives.
    void CheckUse(const Event& event, const LocalOperand& operand) const;

private:
    enum class State : uint8_t { FREE, ALLOCATED, QUEUED, TAKEN };

    struct Slot {
        State state = State::FREE;
        Where where;    // of the call that brought it into this state
        Clock freed{};  // FreeTensor told the next AllocTensor this
        Clock queued{};
    };

    Slot& SlotOf(uint32_t buffer) { return slots_[buffer - 1]; }
    void Alloc(const QueueEvent& event, Order& order, LocalMemory& memory);
    void EnQue(const QueueEvent& event, Order& order);
    void DeQue(const QueueEvent& event, Order& order);
    void Free(const QueueEvent& event, Order& order, LocalMemory& memory);

    std::vector<Slot> slots_;                               // of buffer numbers 1, 2 ...
    std::map<uint32_t, std::deque<uint32_t>> queued_;       // buffers, by queue
    std::map<std::pair<HardEvent, int32_t>, Clock> flags_;  // set and not yet waited for
    std::map<std::pair<HardEvent, int32_t>, Where> setAt_;
    uint32_t queueBuffers_[16] = {};  // by TPosition
    uint32_t buffers_ = 0;
};

}  // namespace host
}  // namespace AscendC

#endif  // ASCENDC_HOST_CHECKED_QUEUES_H
