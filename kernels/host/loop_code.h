/*!
 * The code of loops (loops.h) and sequences (sequence.h): one function for all of the same form, compiled while the
 * program runs.
 *
 * The host layer does not compile. It says what is worth it, and hands out its IR; somebody else, in
 * ms_ascend_ops/loop_compiler.py LLVM, gives back an address. Until then, or without that somebody, chains run.
 */
#ifndef ASCENDC_HOST_LOOP_CODE_H
#define ASCENDC_HOST_LOOP_CODE_H

#include <array>
#include <atomic>
#include <cstdint>

#include "loops.h"
#include "prefetch.h"

namespace AscendC {
namespace host {

// See WriteLoop (loop_ir.h).
using LoopFunction = void (*)(const ChainLink* links, uint64_t begin, uint64_t end, LoopAhead* ahead);

class LoopCode {
public:
    LoopCode(const LoopForm& form, uint32_t number);

    // Null: not yet, or never.
    LoopFunction Function() const { return function_.load(std::memory_order_acquire); }
    // The best one of these ways that there is and these links allow; or Function().
    LoopFunction Function(LoopWays ways, const ChainLink* links) const;
    // Asks for the code, and for the one that goes these ways as far as these links allow, if nobody has.
    void Request(LoopWays ways, const ChainLink* links);

private:
    friend struct LoopRequests;

    bool Suits(const ChainLink* links) const;

    const LoopForm form_;
    const uint32_t number_;
    // For the ways of the form: links whose stores must be aligned, and whose DataBlocks must be ones.
    std::vector<uint16_t> streams_;
    std::vector<uint16_t> ones_;
    bool requested_ = false;
    std::atomic<LoopFunction> function_{nullptr};
    std::array<std::atomic<LoopCode*>, LoopWays::COUNT> others_{};  // by their ways: the same form but for these
};

// The code of this form, which lives as long as the process; null: nobody could compile it, or there are too many.
LoopCode* FindLoopCode(const LoopForm& form);

// How much a plan must have done before the code of its loops is asked for, in strips of an instruction.
uint64_t LoopThreshold();
void SetLoopThreshold(uint64_t strips);

// For who compiles: `visit` gets the next form that was asked for, as IR with a function `name`. With `wait` not before
// there is one. False: there is none, or StopLoops was called.
using LoopVisitor = void (*)(void* context, uint32_t number, const char* name, const char* text);
bool NextLoop(bool wait, LoopVisitor visit, void* context);
// `function`: where the code of that number is; null: it could not be compiled.
void SetLoop(uint32_t number, LoopFunction function);
// How many loops were asked for and have no address yet.
uint32_t PendingLoops();
// Nothing is handed out any more.
void StopLoops();

}  // namespace host
}  // namespace AscendC

#endif  // ASCENDC_HOST_LOOP_CODE_H
