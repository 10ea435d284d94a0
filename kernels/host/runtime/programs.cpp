/*!
 * Implements the programs of a core: recorded instructions are compared with known programs, and a program is scheduled
 * and run.
 */
#include <algorithm>
#include <cstring>
#include <memory>

#include "base/build.h"
#include "passes/liveness.h"
#include "runtime/core.h"
#include "runtime/executor.h"
#include "runtime/lowering.h"

namespace AscendC {
namespace host {

// ---- recording

namespace {

// Returns the operand of an instruction that lies in global memory, where every tile has another address.
uint32_t GmOperand(const Instruction& instruction)
{
    switch (instruction.kind) {
        case InstructionKind::COPY_IN:
            return 1;
        case InstructionKind::COPY_OUT:
        case InstructionKind::COPY_OUT_ADD:
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

// Fields that follow from the operands and the operation are not compared.
bool SameInstruction(const Instruction& a, const Instruction& b)
{
    if (a.operation != b.operation || a.kind != b.kind || a.operandCount != b.operandCount) {
        return false;
    }
    uint64_t different = (a.iterations ^ b.iterations) | (a.lanes ^ b.lanes) | (Bits(a.scalar) ^ Bits(b.scalar)) |
                         (a.option ^ b.option) | (a.granule ^ b.granule);
    if (a.kind == InstructionKind::VECTOR) {
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
    next.kind = InstructionKind::VECTOR;
    next.widen = false;
    next.blockOperand = 0;
    next.folds = false;
    next.lanes = 1;
    next.granule = 1;
    return next;
}

bool Core::SameViews(const Program& program) const
{
    return std::equal(program.views.begin(), program.views.end(), views_.begin(), views_.end(), SameForm);
}

bool Core::Starts(const Program& program) const
{
    return !program.instructions.empty() && SameInstruction(program.instructions[0], incoming_) && SameViews(program);
}

// Finds a known program that begins like the current one. The one that came here the last time is tried first.
bool Core::Follow()
{
    const uint32_t likely = next_[beforeLast_][last_];
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

// The current program has left the known one. Is there another one that begins like it, and continues with `next` or,
// if that is null, has no more instructions?
bool Core::Rejoin(const Instruction* next)
{
    for (Program& program : programs_) {
        if (next == nullptr ? program.instructions.size() != count_ : program.instructions.size() <= count_) {
            continue;
        }
        bool same = SameViews(program) && (next == nullptr || SameInstruction(program.instructions[count_], *next));
        for (uint32_t i = 0; i < count_ && same; ++i) {
            same = SameInstruction(program.instructions[i], log_[i]);
        }
        if (same) {
            known_ = &program;
            return true;
        }
    }
    return false;
}

// The current program is not the known one: their common part goes to the log.
void Core::Leave()
{
    for (uint32_t i = 0; i < count_; ++i) {
        log_[i] = known_->instructions[i];
        const uint32_t gm = GmOperand(log_[i]);
        if (gm < MAX_OPERANDS) {
            log_[i].operands[gm].base = const_cast<char*>(gm_[views_.size() + i]);
        }
    }
    known_ = nullptr;
}

void Core::Take()
{
    HOST_OBSERVED(if (!TheExecutor().Executes()) { return; })
    Record();
}

void Core::Record()
{
    if (count_ == MAX_INSTRUCTIONS) {
        EndProgram(NOBODY);
        goesOn_ = true;
    }
    if (known_ == nullptr) {
        if (count_ > 0 || !Follow()) {
            log_[count_++] = incoming_;
            return;
        }
    } else if (count_ == known_->instructions.size() || !SameInstruction(known_->instructions[count_], incoming_)) {
        Leave();
        if (!Rejoin(&incoming_)) {
            Record();
            return;
        }
    }
    const uint32_t gm = GmOperand(incoming_);
    if (gm < MAX_OPERANDS) {
        gm_[views_.size() + count_] = incoming_.operands[gm].base;
    }
    ++count_;
}

// ---- carrying out

// The current program, in the log, is a new one.
// Kernels that keep the rules have no other operands; those of a tensor that no InitBuffer gave a buffer are at null.
void Core::CheckOperands() const
{
    for (uint32_t i = 0; i < count_; ++i) {
        const uint32_t gm = GmOperand(log_[i]);
        for (uint32_t k = 0; k < log_[i].operandCount; ++k) {
            const char* const base = log_[i].operands[k].base;
            if (k != gm && log_[i].iterations > 0 && (base < ub_ || base >= ub_ + UB_BYTES)) {
                Fail("an operand is not in the Unified Buffer: its LocalTensor has no buffer, or ends before it");
            }
        }
    }
}

void Core::Learn()
{
    CheckOperands();
    oldest_ += &programs_[oldest_] == waiting_ ? 1 : 0;
    Program& program = programs_[oldest_ % MAX_PROGRAMS];
    oldest_ = (oldest_ + 1) % MAX_PROGRAMS;
    program = Program{};
    program.number = number_++;
    program.instructions.assign(log_, log_ + count_);
    program.views = views_;
    program.writtenFirst = WrittenFirst(log_, count_);
    for (uint32_t v = 0; v < views_.size(); ++v) {
        gm_[v] = views_[v].gm;
    }
    for (uint32_t i = 0; i < count_; ++i) {
        const uint32_t gm = GmOperand(log_[i]);
        gm_[views_.size() + i] = gm < MAX_OPERANDS ? log_[i].operands[gm].base : nullptr;
    }
    known_ = &program;
}

// Returns the schedule of a program that is followed by `follower`, or, if that is null, by an unknown one or the end.
const std::shared_ptr<Schedule>& Core::ScheduleFor(Program& program, uint64_t number, const Program* follower)
{
    for (Variant& variant : program.variants) {
        if (variant.follower == number) {
            return variant.schedule;
        }
    }
    if (program.variants.size() < MAX_VARIANTS) {
        program.variants.emplace_back();
    } else {  // not the first, which holds their common part
        std::rotate(program.variants.begin() + 1, program.variants.begin() + 2, program.variants.end());
    }
    Variant& variant = program.variants.back();
    variant.follower = number;
    Ranges needed;
    if (number != END) {
        needed.Add({ub_, ub_ + UB_BYTES});
    }
    if (follower != nullptr) {
        for (const Span& span : follower->writtenFirst.Spans()) {
            needed.Remove(span);
        }
    }
    const uint32_t count = static_cast<uint32_t>(program.instructions.size());
    variant.schedule = std::make_shared<Schedule>();
    Lower(scheduler_.Make(program.views, program.instructions.data(), count, needed), *variant.schedule);
    return variant.schedule;
}

// The current program is complete, and waits for the next. `follower`: the next program, as far as it is known.
void Core::EndProgram(uint64_t follower)
{
    if (count_ == 0) {
        return;
    }
    if (known_ != nullptr && count_ != known_->instructions.size()) {
        Leave();
        Rejoin(nullptr);
    }
    if (known_ != nullptr && !known_->variants.front().schedule->Fits(gm_)) {
        Leave();
    }
    if (known_ == nullptr) {
        Learn();
    }
    RunWaiting(known_->number, known_);
    if (known_->variants.empty()) {
        ScheduleFor(*known_, follower, nullptr);
    }
    memcpy(waitingGm_, gm_, (views_.size() + count_) * sizeof(gm_[0]));
    known_->variants.front().schedule->EndViews(gm_, views_);
    waiting_ = known_;
    waitingPrefetcher_ = prefetcher_;
    prefetcher_.Reset();
    const uint32_t index = static_cast<uint32_t>(known_ - programs_.data());
    next_[beforeLast_][last_] = static_cast<uint8_t>(index);
    beforeLast_ = last_;
    last_ = index;
    known_ = nullptr;
    count_ = 0;
    wrote_ = false;
}

// Runs the program that waits. A schedule for a follower is worth making when it follows a second time.
void Core::RunWaiting(uint64_t number, const Program* follower)
{
    if (waiting_ == nullptr) {
        return;
    }
    Program& program = *waiting_;
    waiting_ = nullptr;
    std::vector<uint64_t>& once = program.followers;
    const bool again = number == END || std::find(once.begin(), once.end(), number) != once.end();
    if (!again) {
        once.insert(once.begin(), number);
        once.resize(std::min<size_t>(once.size(), MAX_VARIANTS));
    }
    const std::shared_ptr<Schedule>& schedule =
        ScheduleFor(program, again ? number : NOBODY, again ? follower : nullptr);
    if (RecordedLaunch* recording = traceCache_.Current()) {
        recording->Ran(schedule, waitingGm_, waitingPrefetcher_);
    }
    schedule->Run(waitingGm_, waitingPrefetcher_, variant_);
}

}  // namespace host
}  // namespace AscendC
