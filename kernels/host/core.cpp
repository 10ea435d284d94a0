#include "core.h"

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>

#include "observe.h"
#include "observed/execution.h"

namespace AscendC {
namespace host {

void Fail(const char* format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    std::fputs("ms_ascend_ops: ", stderr);
    std::vfprintf(stderr, format, arguments);
    std::fputc('\n', stderr);
    va_end(arguments);
    std::abort();
}

Core::Core() : programs_(MAX_PROGRAMS)
{
    ub_ = static_cast<char*>(std::aligned_alloc(4096, (UB_BYTES + 4095) / 4096 * 4096));
    if (ub_ == nullptr) {
        throw std::bad_alloc();
    }
}

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

void Core::Begin(uint32_t blockIdx, uint32_t blockNum, bool large)
{
    blockIdx_ = blockIdx;
    blockNum_ = blockNum;
    large_ = large;
    mask = MaskState{};
    atomicAdd = false;
    views_.clear();
    prefetcher_.Reset();
    count_ = 0;
    known_ = nullptr;
    wrote_ = false;
}

// ---- recording

namespace {

// Which operand of a request lies in global memory, where every tile has another address.
uint32_t GmOperand(const Instruction& request)
{
    switch (request.request) {
        case RequestKind::COPY_IN:
            return 1;
        case RequestKind::COPY_OUT:
        case RequestKind::COPY_OUT_ADD:
            return 0;
        default:
            return MAX_OPERANDS;
    }
}

uint64_t Differ(const Operand& a, const Operand& b)
{
    return (reinterpret_cast<uint64_t>(a.base) ^ reinterpret_cast<uint64_t>(b.base)) |
           static_cast<uint64_t>(a.stride ^ b.stride) | (a.extent ^ b.extent);
}

uint32_t Bits(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof(bits));
    return bits;
}

// What follows from the operands and `run` is not compared.
bool SameRequest(const Instruction& a, const Instruction& b)
{
    if (a.run != b.run || a.request != b.request || a.operandCount != b.operandCount) {
        return false;
    }
    uint64_t different = (a.units ^ b.units) | (a.lanes ^ b.lanes) | (Bits(a.scalar) ^ Bits(b.scalar)) |
                         (a.option ^ b.option) | (a.granule ^ b.granule);
    if (a.request == RequestKind::VECTOR) {
        different |= Differ(a.operands[0], b.operands[0]);
        if (a.operandCount > 1) {
            different |= Differ(a.operands[1], b.operands[1]);
        }
        if (a.operandCount > 2) {
            different |= Differ(a.operands[2], b.operands[2]);
        }
        return different == 0;
    }
    const uint32_t gm = GmOperand(a);
    for (uint32_t i = 0; i < a.operandCount; ++i) {
        different |= i == gm ? static_cast<uint64_t>(a.operands[i].stride ^ b.operands[i].stride)
                             : Differ(a.operands[i], b.operands[i]);
    }
    return different == 0;
}

bool SameForm(const View& a, const View& b)
{
    return a.ub.begin == b.ub.begin && a.ub.end == b.ub.end && a.rows.rows == b.rows.rows &&
           a.rows.rowBytes == b.rows.rowBytes && a.rows.stride == b.rows.stride && a.gmStride == b.gmStride;
}

}  // namespace

Instruction& Core::Next()
{
    Instruction& next = incoming_;
    next.request = RequestKind::VECTOR;
    next.widen = false;
    next.blockOperand = 0;
    next.fold = nullptr;
    next.lanes = 1;
    next.granule = 1;
    return next;
}

bool Core::Starts(const Program& program) const
{
    if (program.requests.empty() || program.views.size() != views_.size() ||
        !SameRequest(program.requests[0], incoming_)) {
        return false;
    }
    for (uint32_t i = 0; i < views_.size(); ++i) {
        if (!SameForm(program.views[i], views_[i])) {
            return false;
        }
    }
    return true;
}

// A known program that begins like the current one. The one that followed the last time is tried first.
bool Core::Follow()
{
    const uint32_t likely = programs_[last_].next;
    for (uint32_t i = 0; i < MAX_PROGRAMS; ++i) {
        Program& program = programs_[(likely + i) % MAX_PROGRAMS];
        if (Starts(program)) {
            known_ = &program;
            for (uint32_t v = 0; v < views_.size(); ++v) {
                gm_[v] = views_[v].gm;
            }
            return true;
        }
    }
    return false;
}

// The current program is not the known one: what they have in common goes to the log.
void Core::Leave()
{
    for (uint32_t i = 0; i < count_; ++i) {
        log_[i] = known_->requests[i];
        const uint32_t gm = GmOperand(log_[i]);
        if (gm < MAX_OPERANDS) {
            log_[i].operands[gm].base = const_cast<char*>(gm_[views_.size() + i]);
        }
    }
    known_ = nullptr;
}

void Core::Take()
{
    HOST_OBSERVED(if (!Executes()) { return; })
    if (known_ == nullptr) {
        if (count_ == MAX_REQUESTS) {
            EndProgram();
        }
        if (count_ > 0 || !Follow()) {
            log_[count_++] = incoming_;
            return;
        }
    } else if (count_ == known_->requests.size() || !SameRequest(known_->requests[count_], incoming_)) {
        Leave();
        Take();
        return;
    }
    const uint32_t gm = GmOperand(incoming_);
    if (gm < MAX_OPERANDS) {
        gm_[views_.size() + count_] = incoming_.operands[gm].base;
    }
    ++count_;
}

void Core::BeforeCopyIn()
{
    if (wrote_ || count_ >= LONG_PROGRAM) {
        EndProgram();
    }
}

void Core::CopyIn(char* ub, const char* gm, const CopyShape& shape, Stream* stream)
{
    BeforeCopyIn();
    Instruction& copy = Next();
    copy.run = nullptr;
    copy.request = RequestKind::COPY_IN;
    copy.units = shape.rows;
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
    copy.run = nullptr;
    copy.request = atomicAdd ? RequestKind::COPY_OUT_ADD : RequestKind::COPY_OUT;
    copy.units = shape.rows;
    copy.lanes = shape.elementBytes;
    copy.operandCount = 2;
    copy.operands[0] = {gm, shape.dstStride, shape.rowBytes};
    copy.operands[1] = {const_cast<char*>(ub), shape.srcStride, shape.rowBytes};
    Take();
    wrote_ = true;
}

void Core::Discard(const char* ub, uint32_t bytes)
{
    Instruction& request = Next();
    request.run = nullptr;
    request.request = RequestKind::DISCARD;
    request.units = 1;
    request.operandCount = 1;
    request.operands[0] = {const_cast<char*>(ub), 0, bytes};
    Take();
}

// ---- carrying out

void Core::EndProgram()
{
    if (count_ == 0) {
        return;
    }
    if (known_ != nullptr && (count_ != known_->requests.size() || !known_->plan.Fits(gm_))) {
        Leave();
    }
    if (known_ == nullptr) {
        Program& program = programs_[oldest_];
        known_ = &program;
        oldest_ = (oldest_ + 1) % MAX_PROGRAMS;
        program.requests.assign(log_, log_ + count_);
        program.views = views_;
        planner_.Make(views_, log_, count_, program.plan);
        for (uint32_t v = 0; v < views_.size(); ++v) {
            gm_[v] = views_[v].gm;
        }
        for (uint32_t i = 0; i < count_; ++i) {
            const uint32_t gm = GmOperand(log_[i]);
            gm_[views_.size() + i] = gm < MAX_OPERANDS ? log_[i].operands[gm].base : nullptr;
        }
    }
    known_->plan.Run(gm_, prefetcher_);
    known_->plan.EndViews(gm_, views_);
    const uint32_t index = static_cast<uint32_t>(known_ - programs_.data());
    programs_[last_].next = index;
    last_ = index;
    known_ = nullptr;
    count_ = 0;
    wrote_ = false;
}

void Core::Flush()
{
    EndProgram();
}

void Core::Settle()
{
    Instruction& request = Next();
    request.run = nullptr;
    request.request = RequestKind::SETTLE;
    request.units = 1;
    request.operandCount = 0;
    Take();
    Flush();
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

void Core::PrepareWrite(char* ub, uint32_t bytes)
{
    Instruction& request = Next();
    request.run = nullptr;
    request.request = RequestKind::OVERWRITE;
    request.units = 1;
    request.operandCount = 1;
    request.operands[0] = {ub, 0, bytes};
    Take();
    Flush();
}

}  // namespace host
}  // namespace AscendC
