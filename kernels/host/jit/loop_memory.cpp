#include "jit/loop_memory.h"

#include <algorithm>

namespace AscendC {
namespace host {

uint32_t LoopMemory::LanesOf(const Value& value, uint32_t k) const
{
    return form_.byRow ? std::min(lanes_, value.elements - (first_ + k) * lanes_) : lanes_;
}

std::string LoopMemory::Address(uint8_t operand, uint32_t k, const char* type)
{
    const std::string element = std::string("getelementptr ") + type + ", ptr ";
    const std::string base = NameOf("base", operand);
    const std::string begin = form_.byRow ? base : ir_.Let(element + base + ", i64 " + index_);
    return ir_.Let(element + begin + ", i64 " + std::to_string((first_ + k) * lanes_));
}

std::string LoopMemory::Read(const Value& load, uint32_t k, const char* type)
{
    const std::string address = Address(load.operand, k, type);
    if (style_.tail) {
        return ir_.MaskedLoad(address, type, "%mask");
    }
    const uint32_t valid = LanesOf(load, k);
    const std::string part = IrBuilder::Vector(valid, type);
    const std::string some = ir_.Let("load " + part + ", ptr " + address + LOOP_ALIGNMENT);
    const auto index = [valid](uint32_t i) { return std::min(i, valid); };
    return valid == lanes_ ? some : ir_.Let(IrBuilder::Shuffle(part, some, "zeroinitializer", lanes_, index));
}

void LoopMemory::Write(const Value& store, uint32_t k, const char* type, const std::string& value)
{
    if (style_.tail) {
        return ir_.MaskedStore(Address(store.operand, k, type), type, value, "%mask");
    }
    const uint32_t valid = LanesOf(store, k);
    const auto index = [](uint32_t i) { return i; };
    const std::string some =
        valid == lanes_ ? value : ir_.Let(IrBuilder::Shuffle(ir_.VectorOf(type), value, "poison", valid, index));
    Write(store, k, type, some, valid);
}

void LoopMemory::Write(const Value& store, uint32_t k, const char* type, const std::string& value, uint32_t elements)
{
    const uint32_t piece = NON_TEMPORAL_BYTES / (type[0] == 'f' ? sizeof(float) : sizeof(uint16_t));
    const std::string address = Address(store.operand, k, type);
    if (!form_.variant.nonTemporal || !form_.MayStoreNonTemporally(store) || elements % piece != 0) {
        ir_.Line("store " + IrBuilder::Vector(elements, type) + " " + value + ", ptr " + address + LOOP_ALIGNMENT);
        return;
    }
    const uint32_t whole = elements * NON_TEMPORAL_BYTES / piece;  // bytes
    if (!style_.aligned || whole == NON_TEMPORAL_BYTES) {
        WritePieces(type, value, address, elements, piece);
        return;
    }
    const std::string number = ir_.Let("ptrtoint ptr " + address + " to i64");
    const std::string past = ir_.Let("and i64 " + number + ", " + std::to_string(whole - 1));
    ir_.If(
        ir_.Let("icmp eq i64 " + past + ", 0"), [&] { WritePieces(type, value, address, elements, elements); },
        [&] { WritePieces(type, value, address, elements, piece); });
}

// Stores that bypass the caches, so many elements at a time.
void LoopMemory::WritePieces(const char* type, const std::string& value, const std::string& address, uint32_t elements,
                             uint32_t piece)
{
    const size_t bytes = piece * (type[0] == 'f' ? sizeof(float) : sizeof(uint16_t));
    for (uint32_t first = 0; first < elements; first += piece) {
        const std::string part = ir_.Let(IrBuilder::Shuffle(IrBuilder::Vector(elements, type), value, "poison", piece,
                                                            [first](uint32_t i) { return first + i; }));
        const std::string at =
            ir_.Let(std::string("getelementptr ") + type + ", ptr " + address + ", i64 " + std::to_string(first));
        ir_.Line("store " + IrBuilder::Vector(piece, type) + " " + part + ", ptr " + at + ", align " +
                 std::to_string(bytes) + ", !nontemporal !1");
    }
}

}  // namespace host
}  // namespace AscendC
