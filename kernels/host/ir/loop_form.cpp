#include "ir/loop_form.h"

#include <algorithm>

namespace AscendC {
namespace host {

std::string LoopForm::Key() const
{
    const char kind = byRow ? 'r' : (hasTail ? 'E' : 'e');
    std::string key = {kind, static_cast<char>('0' + variant.Number())};
    key.append(reinterpret_cast<const char*>(&inGm), sizeof(inGm));
    key.append(reinterpret_cast<const char*>(rows.data()), rows.size() * sizeof(rows[0]));
    return key.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(values[0]));
}

bool LoopForm::MayStoreNonTemporally(const Value& value) const
{
    return value.kind == ValueKind::STORE && value.need == Need::IN_GM &&
           (!byRow || rows[value.operand].stride % NON_TEMPORAL_BYTES == 0);
}

uint32_t LoopForm::Inputs() const
{
    uint64_t read = 0;  // a bit for each operand
    for (const Value& value : values) {
        read |= value.kind == ValueKind::LOAD ? inGm & 1ull << value.operand : 0;
    }
    return static_cast<uint32_t>(__builtin_popcountll(read));
}

bool LoopForm::MayOverlap() const
{
    uint64_t read = 0;  // a bit for each operand
    uint64_t stored = 0;
    bool collects = false;
    for (const Value& value : values) {
        read |= value.kind == ValueKind::LOAD ? 1ull << value.operand : 0;
        stored |= value.kind == ValueKind::STORE ? 1ull << value.operand : 0;
        collects = collects || value.kind == ValueKind::COLLECT;
    }
    return !byRow && !collects && (read & stored) == 0;
}

}  // namespace host
}  // namespace AscendC
