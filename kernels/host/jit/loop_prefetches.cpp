#include "jit/loop_prefetches.h"

#include <cstddef>

#include "jit/loop_ahead.h"
#include "jit/loop_memory.h"
#include "passes/cost_model.h"

namespace AscendC {
namespace host {

// By itself the CPU looks ahead only as far as the end of a page. Lines of outputs are loaded, too; not those of
// outputs of 16 bits: half as many lines for the same arithmetic come in time.
void LoopPrefetches::Emit()
{
    uint64_t done = 0;  // a bit for each operand
    for (const Value& value : form_.values) {
        const bool writes = value.kind == ValueKind::STORE;
        if ((value.kind != ValueKind::LOAD && !writes) || !form_.IsInGm(value) || (done >> value.operand & 1) != 0) {
            continue;
        }
        done |= 1ull << value.operand;
        const bool wide = value.type == ElementType::FLOAT;
        if (!writes || (wide && !form_.variant.nonTemporal)) {
            Emit(value, writes);
        }
    }
}

// Prefetches as many lines of an operand as an iteration goes over.
void LoopPrefetches::Emit(const Value& value, bool writes)
{
    const uint32_t size = SizeOf(value.type);
    constexpr int64_t READ_AHEAD = 256;  // elements
    constexpr int64_t WRITE_AHEAD = 512;
    int64_t ahead = size * (writes ? WRITE_AHEAD : READ_AHEAD);
    int64_t bytes = size * elements_;
    std::string here = NameOf("base", value.operand);
    if (form_.byRow) {
        const int64_t stride = form_.rows[value.operand].stride;
        if (stride <= 0) {
            return;
        }
        ahead = (ahead + stride - 1) / stride * stride;
        bytes = size * value.elements;
    } else {
        const std::string done = ir_.Let("mul i64 %i, " + std::to_string(size));
        here = ir_.Let("getelementptr i8, ptr " + here + ", i64 " + done);
    }
    for (int64_t k = 0; k < bytes; k += LINE_BYTES) {
        const std::string line = ir_.Let("getelementptr i8, ptr " + here + ", i64 " + std::to_string(ahead + k));
        ir_.Prefetch(line, writes, IrBuilder::Cache::FIRST);
    }
}

void LoopPrefetches::PrepareNextTile()
{
    const auto field = [this](const std::string& name, const char* type, size_t offset) {
        entry_.Define(name + ".at", "getelementptr i8, ptr %ahead, i64 " + std::to_string(offset));
        entry_.Define(name, std::string("load ") + type + ", ptr " + name + ".at");
    };
    field("%prefetched.first", "i64", offsetof(LoopAhead, done));
    field("%prefetched.bytes", "i64", offsetof(LoopAhead, bytes));
    field("%rate", "i64", offsetof(LoopAhead, rate));
    for (uint32_t k = 0; k < form_.variant.prefetches; ++k) {
        field(NameOf("stretch", k), "ptr", offsetof(LoopAhead, stretches) + k * sizeof(const char*));
    }
    const uint32_t cost = CostOf(form_) * (form_.byRow ? 1 : elements_);
    entry_.Define("%paid", "mul i64 %rate, " + std::to_string(cost));
    entry_.Define("%whole", "add i64 %paid, " + std::to_string((1 << LoopAhead::RATE_BITS) - 1));
    entry_.Define("%pace", "lshr i64 %whole, " + std::to_string(LoopAhead::RATE_BITS));
}

// Prefetches the lines that begin in the bytes that an iteration advances by.
std::string LoopPrefetches::EmitNextTile()
{
    PrepareNextTile();
    ir_.Define("%prefetched.next", "add i64 %prefetched, %pace");
    const std::string then = ir_.UpTo("%prefetched.next", "%prefetched.bytes");
    const std::string behind = ir_.Let("add i64 %prefetched, " + std::to_string(LINE_BYTES - 1));
    const std::string line = ir_.Let("and i64 " + behind + ", -" + std::to_string(LINE_BYTES));
    ir_.For(line, then, LINE_BYTES, [this](const std::string& at) {
        for (uint32_t k = 0; k < form_.variant.prefetches; ++k) {
            const std::string address = ir_.Let("getelementptr i8, ptr " + NameOf("stretch", k) + ", i64 " + at);
            ir_.Prefetch(address, false, IrBuilder::Cache::SECOND);
        }
    });
    return then;
}

}  // namespace host
}  // namespace AscendC
