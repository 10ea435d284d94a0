/*!
 * One AI core of a launch, as a worker thread plays it: its Unified Buffer, and the list of instructions it has
 * recorded but not yet run.
 *
 * Deferred execution. Vector instructions and copies are recorded in order. Consecutive instructions that walk over
 * their operands in step form a group; a group runs strip by strip, all its instructions on one strip before the next
 * strip, so that what one writes is still in the L1 cache when the other reads it. Groups run in order. A copy from
 * global memory is a view: instructions read the source in place, until somebody writes into the copy. The list runs
 * at the next point that needs a result: a scalar read, a barrier between cores, a full list, the end of the kernel.
 *
 * The result is that of running one instruction after the other: an instruction joins a group only if no strip of it
 * touches what an earlier member has still to read or write.
 */
#ifndef ASCENDC_HOST_CORE_H
#define ASCENDC_HOST_CORE_H

#include <cstddef>
#include <cstdint>

#include "instruction.h"
#include "types.h"

namespace AscendC {
namespace host {

// A kernel broke a rule that makes going on impossible: prints the message and aborts.
[[noreturn]] void Fail(const char* format, ...) __attribute__((format(printf, 1, 2)));

// Unified Buffer of one A2 vector core that a kernel may use: 192 KiB less the 8 KiB and 256 B CANN keeps.
constexpr uint32_t UB_BYTES = 192 * 1024 - 8 * 1024 - 256;

// A DataCopy's shape: `rows` pieces of `rowBytes`, with a stride from one start to the next on either side.
struct CopyShape {
    uint32_t rows;
    uint32_t rowBytes;
    int64_t dstStride;
    int64_t srcStride;
    uint32_t elementBytes;
};

// The copies into one queue: where the last one came from tells where the next will.
struct Stream {
    const char* last = nullptr;
};

struct MaskState {
    MaskMode mode = MaskMode::NORMAL;
    uint32_t count = 0;  // active lanes (normal) or elements (counter)
};

class Core {
public:
    Core();
    ~Core();
    Core(const Core&) = delete;
    Core& operator=(const Core&) = delete;

    // The core that runs on this thread.
    static Core& Current()
    {
        Core* current = t_current;
        return __builtin_expect(current != nullptr, 1) ? *current : Create();
    }

    void Begin(uint32_t blockIdx, uint32_t blockNum, bool streaming);
    // The place for the next instruction, as if new: fill it in, then record it with Issue().
    Instruction& Next();
    void Issue();
    void CopyIn(char* ub, const char* gm, const CopyShape& shape, Stream* stream);
    void CopyOut(char* gm, const char* ub, const CopyShape& shape);
    // Runs everything recorded and makes every view a copy of its own, so that other cores may change the source.
    void Flush();
    void Settle();
    // Where the bytes at this UB address are now; everything recorded has run.
    const char* Read(const char* ub);
    // The bytes of this UB range are not needed any more.
    void Discard(const char* ub, uint32_t bytes);
    // Allows a scalar write to this UB range; everything recorded has run.
    void PrepareWrite(char* ub, uint32_t bytes);

    char* UnifiedBuffer() const { return ub_; }
    uint32_t BlockIdx() const { return blockIdx_; }
    uint32_t BlockNum() const { return blockNum_; }
    MaskState mask;
    bool atomicAdd = false;  // copies to global memory add floats instead of replacing them

private:
    static constexpr uint32_t MAX_INSTRUCTIONS = 48;
    static constexpr uint32_t MAX_VIEWS = 12;
    static constexpr uint32_t MAX_AHEAD = 4;
    static constexpr uint32_t MAX_WRITES = 4;
    static constexpr uint32_t MIN_STREAM_BYTES = 2048;  // of a row that goes past the cache
    static constexpr uint32_t MIN_PREFETCH_BYTES = 4096;
    static constexpr uint32_t LINE_BYTES = 64;
    static constexpr uint32_t STRIP_ELEMENTS = 512;
    static constexpr uint32_t TINY_ELEMENTS = 256;
    static constexpr uint32_t GRANULE = 128;  // elements in a repeat of the narrowest type
    static constexpr uint16_t NONE = 0xffff;

    struct Span {
        const char* begin;
        const char* end;
        bool Overlaps(const Span& other) const { return begin < other.end && other.begin < end; }
        bool Covers(const Span& other) const { return begin <= other.begin && other.end <= end; }
    };

    struct Group {
        uint16_t first;
        uint16_t last;
        uint32_t units;     // of its coarsest instruction; every other has a multiple of it
        uint32_t elements;  // of its widest instruction in one such unit
        bool granular;      // a member wants strips at multiples of GRANULE units
    };

    struct View {
        Span ub;  // from the first byte to the last valid one
        const char* gm;
        uint32_t rows;
        uint32_t rowBytes;
        int64_t ubStride;
        int64_t gmStride;
    };

    // Memory that the next tile will be copied from, not yet prefetched.
    struct Ahead {
        const char* next;
        uint32_t rowBytes;  // of a row
        uint32_t left;      // of the current row
        uint32_t rows;      // the current one included
        int64_t gap;        // bytes from a row's end to the next
    };

    // A large copy to global memory whose data is ready: it goes out while the next tile is calculated.
    struct Write {
        Span source;
        Span target;
        char* dst;  // of the current row, what is left of it
        const char* src;
        uint32_t left;
        uint32_t rows;  // the current one included
        uint32_t rowBytes;
        int64_t dstGap;
        int64_t srcGap;
    };

    static Core& Create();
    static void SetEnds(Instruction& instruction);
    static bool KeepsStep(const Operand& earlier, uint32_t earlierRatio, const Operand& later, uint32_t laterRatio,
                          uint32_t units);
    static bool KeepsStep(const Instruction& earlier, const Instruction& later, uint32_t units);
    void Resolve(uint32_t index);
    void Overwrite(const Span& span, bool gapless);
    void Materialize(uint32_t view);
    void RemoveView(uint32_t view);
    void Append();
    bool Joins(const Group& group, const Instruction& instruction) const;
    bool Widens(const Instruction& later);
    bool SinkCopy(const Instruction& copy);
    void AddTo(Group& group, uint16_t index);
    void LookAhead(const char* gm, const View& view, Stream& stream);
    void Prefetch(uint32_t lines);
    static uint32_t StripOf(const Group& group);
    bool QueueWrite(const CopyShape& shape);
    void WriteOut(uint32_t lines);
    void WriteOutAll();
    bool WriteTouches(const Span& span) const;
    void Run(const Group& group, uint32_t readsPerRun, uint32_t writesPerRun);
    void RunRecorded();

    char* ub_ = nullptr;
    uint32_t blockIdx_ = 0;
    uint32_t blockNum_ = 1;
    bool streaming_ = false;
    uint16_t instructionCount_ = 0;
    uint16_t groupCount_ = 0;
    static thread_local Core* t_current;
    uint32_t viewCount_ = 0;
    Span viewHull_ = {nullptr, nullptr};  // from the first view's copy to the last one's
    uint32_t writeCount_ = 0;
    Write writes_[MAX_WRITES];
    uint32_t aheadCount_ = 0;
    Ahead ahead_[MAX_AHEAD];
    Group groups_[MAX_INSTRUCTIONS];
    uint16_t next_[MAX_INSTRUCTIONS];
    View views_[MAX_VIEWS];
    Instruction instructions_[MAX_INSTRUCTIONS + 1];  // and the one being filled in
};

}  // namespace host
}  // namespace AscendC

#endif  // ASCENDC_HOST_CORE_H
