#include "jit/straight_line_ir.h"

#include <algorithm>
#include <functional>

#include "base/types.h"
#include "ir/operation.h"
#include "jit/ir_arithmetic.h"

namespace AscendC {
namespace host {

namespace {

constexpr uint32_t FLOAT_BYTES = sizeof(float);

class StraightLineWriter {
public:
    explicit StraightLineWriter(const VectorUnit& unit) : lanes_(unit.lanes), ir_(unit.lanes) {}

    std::string Write(const std::vector<SmallStep>& steps, const std::string& name)
    {
        for (const SmallStep& step : steps) {
            step_ = &step;
            Emit();
        }
        return ir_.Opening(name) + "  br label %loop\nloop:\n" + ir_.Body() + IrBuilder::Closing();
    }

private:
    void Emit()
    {
        for (uint32_t i = 0; i < step_->operands; ++i) {
            const std::string number = std::to_string(step_->index + i);
            bases_[i] = ir_.Let("load ptr, ptr " + ir_.Let("getelementptr ptr, ptr %bases, i64 " + number));
        }
        switch (step_->opcode) {
            case Opcode::FILL:
                return Fill();
            case Opcode::COPY:
                return Copy();
            case Opcode::BROADCAST_BLOCK:
                return FillBlocks();
            case Opcode::REDUCE_SUM:
                return Reduce([this](const Vectors& parts) { return SumOf(parts); });
            case Opcode::REDUCE_MAX:
                return Reduce([this](const Vectors& parts) { return LargestOf(parts); });
            default:
                return Calculate();
        }
    }

    // ---- memory

    std::string AddressOf(uint32_t operand, int64_t unit, uint32_t bytes)
    {
        const int64_t offset = unit * step_->strides[operand] + bytes;
        return ir_.Let("getelementptr i8, ptr " + bases_[operand] + ", i64 " + std::to_string(offset));
    }
    // So many floats, and zeros.
    std::string Load(const std::string& address, uint32_t count)
    {
        const std::string type = IrBuilder::Vector(count, "float");
        const std::string floats = ir_.Let("load " + type + ", ptr " + address + ", align 1");
        const auto index = [count](uint32_t i) { return std::min(i, count); };
        return count == lanes_ ? floats : ir_.Let(IrBuilder::Shuffle(type, floats, "zeroinitializer", lanes_, index));
    }
    // The first so many of a vector.
    void Store(const std::string& address, const std::string& value, uint32_t count)
    {
        const auto index = [](uint32_t i) { return i; };
        const std::string floats = count == lanes_ ? value : ir_.Let(Shuffled(value, count, index));
        ir_.Line("store " + IrBuilder::Vector(count, "float") + " " + floats + ", ptr " + address + ", align 1");
    }
    std::string Shuffled(const std::string& value, uint32_t lanes, const std::function<uint32_t(uint32_t)>& index) const
    {
        return IrBuilder::Shuffle(ir_.VectorOf("float"), value, "poison", lanes, index);
    }

    // ---- a unit's stores; where units have no gaps between them, they are one piece

    template <class F>
    void EachPiece(F&& write)
    {
        const bool gapless = std::all_of(step_->strides, step_->strides + step_->operands, [this](int32_t stride) {
            return stride == static_cast<int32_t>(step_->extent);
        });
        for (uint32_t u = 0; u < (gapless ? 1 : step_->units); ++u) {
            write(u, gapless ? step_->units * step_->extent : step_->extent);
        }
    }
    void Fill()
    {
        EachPiece([&](int64_t unit, uint32_t bytes) {
            for (uint32_t i = 0; i < bytes; i += lanes_ * FLOAT_BYTES) {
                const uint32_t count = std::min<uint32_t>(lanes_, (bytes - i) / FLOAT_BYTES);
                ir_.Line("store " + IrBuilder::Vector(count, "i32") + " " + IrBuilder::SplatInt(step_->option) +
                         ", ptr " + AddressOf(0, unit, i) + ", align 1");
            }
        });
    }
    // Vector by vector; the remainder is read before it is written.
    void Copy()
    {
        EachPiece([&](int64_t unit, uint32_t bytes) {
            std::vector<std::string> stores;
            for (uint32_t i = 0; i < bytes;) {
                const uint32_t floats = std::min<uint32_t>(lanes_, (bytes - i) / FLOAT_BYTES);
                const std::string type = floats > 0 ? IrBuilder::Vector(floats, "float") : "i8";
                const std::string bits = ir_.Let("load " + type + ", ptr " + AddressOf(1, unit, i) + ", align 1");
                stores.push_back("store " + type + " " + bits + ", ptr " + AddressOf(0, unit, i) + ", align 1");
                i += floats > 0 ? floats * FLOAT_BYTES : 1;
                if (floats == lanes_ || i == bytes) {
                    std::for_each(stores.begin(), stores.end(), [this](const std::string& store) { ir_.Line(store); });
                    stores.clear();
                }
            }
        });
    }
    void FillBlocks()
    {
        constexpr uint32_t BLOCK = ONE_BLK_SIZE / FLOAT_BYTES;
        for (int64_t u = 0; u < step_->units; ++u) {
            const std::string all = Everywhere(Load(AddressOf(1, u, 0), 1));
            for (uint32_t i = 0; i < BLOCK; i += lanes_) {
                Store(AddressOf(0, u, i * FLOAT_BYTES), all, std::min(BLOCK - i, lanes_));
            }
        }
    }

    // ---- reductions, of 64 floats each

    template <class F>
    void Reduce(F&& reduced)
    {
        for (int64_t u = 0; u < step_->units; ++u) {
            Vectors parts;
            for (uint32_t i = 0; i < REPEAT_FLOATS; i += lanes_) {
                parts.push_back(Load(AddressOf(1, u, i * FLOAT_BYTES), lanes_));
            }
            Store(AddressOf(0, u, 0), reduced(parts), 1);
        }
    }
    // Lane i meets lane i + 32, then i + 16, and so on.
    std::string SumOf(Vectors parts)
    {
        for (size_t half = parts.size() / 2; half > 0; half /= 2) {
            for (size_t k = 0; k < half; ++k) {
                parts[k] = ir_.Binary(Opcode::ADD, parts[k], parts[k + half]);
            }
        }
        return Folded(Opcode::ADD, parts[0]);
    }
    std::string LargestOf(const Vectors& parts)
    {
        std::string best = Everywhere(parts[0]);
        for (const std::string& part : parts) {
            best = ir_.Binary(Opcode::MAX, best, part);
        }
        return Folded(Opcode::MAX, best);
    }
    std::string Folded(Opcode opcode, std::string value)
    {
        for (uint32_t distance = lanes_ / 2; distance > 0; distance /= 2) {
            const auto other = [distance](uint32_t i) { return i ^ distance; };
            value = ir_.Binary(opcode, value, ir_.Let(Shuffled(value, lanes_, other)));
        }
        return value;
    }
    // Element 0.
    std::string Everywhere(const std::string& value)
    {
        return ir_.Let(Shuffled(value, lanes_, [](uint32_t) { return 0; }));
    }

    // ---- arithmetic, on contiguous elements

    void Calculate()
    {
        for (uint32_t i = 0; i < step_->units; i += lanes_) {
            const uint32_t count = std::min(lanes_, step_->units - i);
            const auto operand = [&](uint32_t number) { return Load(AddressOf(number, 0, i * FLOAT_BYTES), count); };
            const std::string a = operand(1);
            std::string result;
            if (KindOf(step_->opcode) == OperationKind::BINARY) {
                result = ir_.Binary(step_->opcode, a, operand(2));
            } else if (KindOf(step_->opcode) == OperationKind::SCALAR) {
                result = ir_.Scalar(step_->opcode, a, step_->scalar);
            } else {
                result = step_->opcode == Opcode::EXP ? ir_.Exp({a})[0] : ir_.Unary(step_->opcode, a);
            }
            Store(AddressOf(0, 0, i * FLOAT_BYTES), result, count);
        }
    }

    const uint32_t lanes_;
    const SmallStep* step_ = nullptr;
    IrArithmetic ir_;
    std::string bases_[CALLED_OPERANDS];  // of the step's operands
};

}  // namespace

std::string WriteStraightLine(const std::vector<SmallStep>& steps, const VectorUnit& unit, const std::string& name)
{
    return StraightLineWriter(unit).Write(steps, name);
}

}  // namespace host
}  // namespace AscendC
