#include "runtime/core.h"

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <string>

#include "base/build.h"
#include "runtime/executor.h"
#include "runtime/launch.h"

namespace AscendC {
namespace host {

void Fail(const char* format, ...)
{
    char text[256];
    va_list arguments;
    va_start(arguments, format);
    std::vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    throw Trapped(std::string(text) + " (`bash build.sh check` says where in the kernel)");
}

namespace {

constexpr size_t PAGE = 4096;
constexpr size_t UB_PAGES = (UB_BYTES + PAGE - 1) / PAGE;

// The Unified Buffer has as much scratch memory for schedules behind it, of which few use any.
char* AllocateUb()
{
    char* const ub = static_cast<char*>(std::aligned_alloc(PAGE, 2 * UB_PAGES * PAGE));
    if (ub == nullptr) {
        throw std::bad_alloc();
    }
    return ub;
}

}  // namespace

Core::Core()
    : ub_(AllocateUb()), scheduler_({ub_ + UB_PAGES * PAGE, ub_ + 2 * UB_PAGES * PAGE}), programs_(MAX_PROGRAMS)
{}

Core::~Core()
{
    std::free(ub_);
}

thread_local Core* Core::t_current = nullptr;

Core& Core::Create()
{
    static thread_local std::unique_ptr<Core> owner = std::make_unique<Core>();
    t_current = owner.get();
    return *t_current;
}

void Core::Begin(uint32_t blockIdx, Cores cores, bool large, LoopVariant variant)
{
    blockIdx_ = blockIdx;
    cores_ = cores;
    large_ = large;
    variant_ = variant;
    mask = MaskState{};
    atomicAdd = false;
    views_.clear();
    prefetcher_.Reset();
    count_ = 0;
    known_ = nullptr;
    waiting_ = nullptr;
    wrote_ = false;
    goesOn_ = false;
    traceCache_.Drop();
}

// ---- calls that are recorded

void Core::BeforeCopyIn()
{
    // A program that follows a full one ends here, however short it is: otherwise each tile would be cut at another
    // place.
    if (wrote_ || count_ >= LONG_PROGRAM || goesOn_) {
        EndProgram(NOBODY);
        goesOn_ = false;
    }
}

void Core::CopyIn(char* ub, const char* gm, const CopyShape& shape, Stream* stream)
{
    BeforeCopyIn();
    Instruction& copy = Next();
    copy.operation = Operation{};
    copy.kind = InstructionKind::COPY_IN;
    copy.iterations = shape.rows;
    copy.lanes = shape.elementBytes;
    copy.operandCount = 2;
    copy.operands[0] = {ub, shape.dstStride, shape.rowBytes};
    copy.operands[1] = {const_cast<char*>(gm), shape.srcStride, shape.rowBytes};
    Take();
    if (stream != nullptr && large_) {
        prefetcher_.LookAhead(gm, {shape.rows, shape.rowBytes, shape.srcStride}, *stream);
    }
}

void Core::CopyOut(char* gm, const char* ub, const CopyShape& shape)
{
    Instruction& copy = Next();
    copy.operation = Operation{};
    copy.kind = atomicAdd ? InstructionKind::COPY_OUT_ADD : InstructionKind::COPY_OUT;
    copy.iterations = shape.rows;
    copy.lanes = shape.elementBytes;
    copy.operandCount = 2;
    copy.operands[0] = {gm, shape.dstStride, shape.rowBytes};
    copy.operands[1] = {const_cast<char*>(ub), shape.srcStride, shape.rowBytes};
    Take();
    wrote_ = true;
}

void Core::Discard(const char* ub, uint32_t bytes)
{
    Instruction& instruction = Next();
    instruction.operation = Operation{};
    instruction.kind = InstructionKind::DISCARD;
    instruction.iterations = 1;
    instruction.operandCount = 1;
    instruction.operands[0] = {const_cast<char*>(ub), 0, bytes};
    Take();
}

// ---- carrying out

// Carries out everything recorded.
void Core::Complete()
{
    EndProgram(NOBODY);
    RunWaiting(NOBODY, nullptr);
}

void Core::Flush()
{
    if (RecordedLaunch* recording = traceCache_.Current()) {
        recording->Spoil();
    }
    Complete();
}

void Core::Finish()
{
    EndProgram(END);
    RunWaiting(END, nullptr);
    traceCache_.Keep();
}

void Core::Fence()
{
    Instruction& instruction = Next();
    instruction.operation = Operation{};
    instruction.kind = InstructionKind::FENCE;
    instruction.iterations = 1;
    instruction.operandCount = 0;
    Take();
    Complete();
}

void Core::Synchronize()
{
    Fence();
    if (RecordedLaunch* recording = traceCache_.Current()) {
        recording->Waited();
    }
    TheExecutor().WaitForAllBlocks();
}

void Core::Multiply(const Product& product)
{
    Fence();
    if (RecordedLaunch* recording = traceCache_.Current()) {
        recording->Multiplied(product);
    }
    HOST_OBSERVED(if (!TheExecutor().Executes()) { return; })
    host::Multiply(product);
}

const char* Core::Read(const char* ub)
{
    Flush();
    for (const View& view : views_) {
        const int64_t offset = ub - view.ub.begin;
        if (offset >= 0 && ub < view.ub.end && offset % view.rows.stride < view.rows.rowBytes) {
            return view.gm + offset / view.rows.stride * view.gmStride + offset % view.rows.stride;
        }
    }
    return ub;
}

void Core::Write(char* ub, const void* value, uint32_t bytes)
{
    Instruction& instruction = Next();
    instruction.operation = Operation{};
    instruction.kind = InstructionKind::OVERWRITE;
    instruction.iterations = 1;
    instruction.operandCount = 1;
    instruction.operands[0] = {ub, 0, bytes};
    Take();
    Complete();
    if (RecordedLaunch* recording = traceCache_.Current()) {
        recording->Wrote(ub, value, bytes);
    }
    memcpy(ub, value, bytes);
}

}  // namespace host
}  // namespace AscendC
