/*!
 * Records who wrote and read each byte of global memory in a launch: of the outputs and the workspace.
 */
#ifndef ASCENDC_HOST_CHECKED_GLOBAL_MEMORY_H
#define ASCENDC_HOST_CHECKED_GLOBAL_MEMORY_H

#include <cstdint>
#include <vector>

#include "checked/order.h"

namespace AscendC {
namespace host {

// One copy or scalar access touches `rows` pieces of `rowBytes`, `stride` bytes apart.
struct GlobalSpan {
    uint64_t offset;  // in the argument
    uint32_t rows;
    uint32_t rowBytes;
    int64_t stride;

    uint64_t End() const { return offset + (rows - 1) * static_cast<uint64_t>(stride) + rowBytes; }
};

class GlobalMemory {
public:
    void Begin(const LaunchInfo& launch);
    void PhaseEnd() { ++phase_; }
    // Every byte of every output has been written.
    void End(const Event& event) const;

    // Keeps the order of this core's own accesses, too: `order` is that core's.
    void Read(const Event& event, uint32_t number, Order& order, const GlobalOperand& operand, const GlobalSpan& span);
    void Write(const Event& event, uint32_t number, Order& order, const GlobalOperand& operand, const GlobalSpan& span,
               bool atomicFloat, bool atomic);
    void CoreBegin(uint32_t core);

private:
    static constexpr uint8_t NEVER = 0;
    static constexpr uint8_t BEFORE = 255;   // in an earlier phase, or before the launch
    static constexpr uint8_t SEVERAL = 254;  // cores have read it in this phase
    static constexpr uint32_t LINE = 512;

    // The kernel may write this memory. The writer and the reader of a byte are core + 1.
    struct Region {
        int32_t argument;
        std::vector<uint8_t> writer;
        std::vector<uint8_t> reader;
        std::vector<uint8_t> atomic;   // the last write added floats
        std::vector<uint32_t> phases;  // of each block of 32 bytes: when its bytes were last touched
    };
    // One of the copy pipes may not know this access to be complete.
    struct Pending {
        int32_t argument;
        uint32_t number;
        pipe_t pipe;
        bool writes;
        GlobalSpan span;
    };

    const char* NameOfArgument(int32_t argument) const;
    Region* Find(int32_t argument);
    void Bounds(const Event& event, const GlobalOperand& operand, const GlobalSpan& span) const;
    void CheckWritten(const Event& event, int32_t argument, const GlobalSpan& span) const;
    void Enter(Region& region, uint64_t begin, uint64_t end) const;
    void CheckOrder(const Event& event, uint32_t number, Order& order, int32_t argument, bool writes,
                    const GlobalSpan& span);
    void NoteNeighbours(const Event& event, const Region& region, uint64_t begin, uint64_t end) const;

    const LaunchInfo* launch_ = nullptr;
    uint32_t phase_ = 0;
    std::vector<Region> regions_;
    std::vector<std::vector<Pending>> pending_;  // by core
};

}  // namespace host
}  // namespace AscendC

#endif  // ASCENDC_HOST_CHECKED_GLOBAL_MEMORY_H
