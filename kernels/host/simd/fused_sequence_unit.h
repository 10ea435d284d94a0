/*!
 * Runs fused sequences (instruction.h), for vector_unit.cpp only.
 *
 * A block of several vectors stays in registers from node to node: the nodes are looked at once a block, and the
 * instructions of one node on several vectors hide each other's latency. Addresses of labels are an extension that GCC
 * and Clang share.
 */
#ifndef ASCENDC_HOST_SIMD_FUSED_SEQUENCE_UNIT_H
#define ASCENDC_HOST_SIMD_FUSED_SEQUENCE_UNIT_H

#include "simd/arithmetic.h"

namespace AscendC {
namespace host {
namespace HOST_ISA {

constexpr uint32_t SUM_LANES = ONE_REPEAT_BYTE_SIZE / sizeof(float);

template <Other OTHER>
struct StreamElement {
    using Type = float;
};
template <>
struct StreamElement<Other::STREAM_HALF> {
    using Type = half;
};
template <>
struct StreamElement<Other::STREAM_BFLOAT16> {
    using Type = bfloat16_t;
};

// N whole vectors, or with WHOLE = false the first n elements of one.
template <uint32_t N, bool WHOLE>
struct SequenceBlock {
    VF value[N];
    size_t at;  // the first element
    uint32_t n = W;

    // Of the block in an operand. Vector k is a constant away from it; without the barrier GCC keeps an index for each
    // k.
    template <typename T>
    HOST_INLINE T* Address(const BoundNode& node) const
    {
        T* address = reinterpret_cast<T*>(node.base) + at;
        asm("" : "+r"(address));
        return address;
    }
    template <typename T>
    HOST_INLINE VF Read(const T* p) const
    {
        return WHOLE ? Load(p) : LoadPartial(p, n);
    }
    template <typename T>
    HOST_INLINE void Fetch(const BoundNode& node)
    {
        const T* source = Address<const T>(node);
#pragma GCC unroll 8
        for (uint32_t k = 0; k < N; ++k) {
            value[k] = Read(source + k * W);
        }
    }
    HOST_INLINE void Keep(const BoundNode& node) const
    {
        float* target = Address<float>(node);
#pragma GCC unroll 8
        for (uint32_t k = 0; k < N; ++k) {
            if (WHOLE) {
                Store(target + k * W, value[k]);
            } else {
                StorePartial(target + k * W, value[k], n);
            }
        }
    }
    HOST_INLINE void KeepHalf(const BoundNode& node) const
    {
#pragma GCC unroll 8
        for (uint32_t k = 0; k < N; ++k) {
            KeepBits(node, k, FloatToHalf(value[k]));
        }
    }
    HOST_INLINE void KeepRounded(const BoundNode& node) const
    {
        KeepUpperHalves(node, [this](uint32_t k) { return reinterpret_cast<VU>(value[k]); });
    }
    HOST_INLINE void KeepCast(const BoundNode& node) const
    {
        if (__builtin_expect(HaveNan(value), 0)) {
            KeepUpperHalves(node, [this](uint32_t k) { return RoundToBFloat16(value[k]); });
        } else {
            KeepUpperHalves(node, [this](uint32_t k) { return RoundNumberToBFloat16(value[k]); });
        }
    }
    template <class Bits>
    HOST_INLINE void KeepUpperHalves(const BoundNode& node, const Bits& bits) const
    {
        if constexpr (N % 2 == 0) {
            uint16_t* target = Address<uint16_t>(node);
#pragma GCC unroll 8
            for (uint32_t k = 0; k < N; k += 2) {
                const VHH two = UpperHalves(bits(k), bits(k + 1));
                memcpy(target + k * W, &two, sizeof(two));
            }
        } else {
#pragma GCC unroll 8
            for (uint32_t k = 0; k < N; ++k) {
                KeepBits(node, k, UpperHalves(bits(k)));
            }
        }
    }
    HOST_INLINE void KeepBits(const BoundNode& node, uint32_t k, VH bits) const
    {
        uint16_t* target = Address<uint16_t>(node) + k * W;
        if (WHOLE) {
            memcpy(target, &bits, sizeof(bits));
        } else {
            StoreBits(target, bits, n);
        }
    }
    HOST_INLINE void RoundHalf()
    {
#pragma GCC unroll 8
        for (uint32_t k = 0; k < N; ++k) {
            value[k] = Rounded(value[k], static_cast<const half*>(nullptr));
        }
    }
    HOST_INLINE void RoundBFloat16()
    {
        if (__builtin_expect(HaveNan(value), 0)) {
#pragma GCC unroll 8
            for (uint32_t k = 0; k < N; ++k) {
                value[k] = Rounded(value[k], static_cast<const bfloat16_t*>(nullptr));
            }
            return;
        }
#pragma GCC unroll 8
        for (uint32_t k = 0; k < N; ++k) {
            value[k] = reinterpret_cast<VF>(RoundNumberToBFloat16(value[k]) & 0xffff0000u);
        }
    }
    template <Opcode OP>
    HOST_INLINE void Unary()
    {
#pragma GCC unroll 8
        for (uint32_t k = 0; k < N; ++k) {
            value[k] = Arithmetic<OP>::Apply(value[k]);
        }
    }
    HOST_INLINE void Exponential() { Exp(value); }
    template <Opcode OP>
    HOST_INLINE void Scalar(const BoundNode& node)
    {
        const VF scalar = Set(node.scalar);
#pragma GCC unroll 8
        for (uint32_t k = 0; k < N; ++k) {
            value[k] = Arithmetic<OP>::Apply(value[k], scalar);
        }
    }
    HOST_INLINE void AddScaled(const BoundNode& node)
    {
        const VF scalar = Set(node.scalar);
        const float* stream = Address<const float>(node);
#pragma GCC unroll 8
        for (uint32_t k = 0; k < N; ++k) {
            value[k] = Arithmetic<Opcode::AXPY>::Apply(Read(stream + k * W), scalar, value[k]);
        }
    }
    template <Opcode OP, Other OTHER, bool SWAPPED>
    HOST_INLINE void Binary(const BoundNode& node)
    {
        using T = typename StreamElement<OTHER>::Type;
        constexpr bool STREAMS = OTHER != Other::BLOCK && OTHER != Other::SELF;
        const T* stream = STREAMS ? Address<const T>(node) : nullptr;
        const auto other = [&](uint32_t k) {
            return STREAMS                 ? Read(stream + k * W)
                   : OTHER == Other::BLOCK ? LoadBlock(reinterpret_cast<const float*>(node.base), at + k * W)
                                           : value[k];
        };
#pragma GCC unroll 8
        for (uint32_t k = 0; k < N; ++k) {
            value[k] = SWAPPED ? Arithmetic<OP>::Apply(other(k), value[k]) : Arithmetic<OP>::Apply(value[k], other(k));
        }
    }
    // The repeats come one after the other, as on the chip.
    template <Opcode OP>
    HOST_INLINE void Collect(const BoundNode& node) const
    {
        float* const lanes = reinterpret_cast<float*>(node.base);
        const size_t phase = at % SUM_LANES;
        if (phase == 0) {
            CollectFrom<OP>(lanes, 0);
        } else {
            CollectFrom<OP>(lanes, phase);
        }
    }
    template <Opcode OP>
    HOST_INLINE void CollectFrom(float* lanes, size_t phase) const
    {
        constexpr uint32_t VECTORS = SUM_LANES / W;
#pragma GCC unroll 8
        for (uint32_t lane = 0; lane < (N < VECTORS ? N : VECTORS); ++lane) {
            float* const collected = lanes + (phase + lane * W) % SUM_LANES;
            VF sum = Read(collected);
#pragma GCC unroll 8
            for (uint32_t k = lane; k < N; k += VECTORS) {
                sum = Arithmetic<OP>::Apply(value[k], sum);
            }
            if (WHOLE) {
                Store(collected, sum);
            } else {
                StorePartial(collected, sum, n);
            }
        }
    }
};

// Every node and what it does, in the order of NodeKind.
#define HOST_NODES(NODE)                                   \
    NODE(LOAD_FLOAT, template Fetch<float>(*node))         \
    NODE(LOAD_HALF, template Fetch<half>(*node))           \
    NODE(LOAD_BFLOAT16, template Fetch<bfloat16_t>(*node)) \
    NODE(STORE_FLOAT, Keep(*node))                         \
    NODE(STORE_HALF, KeepHalf(*node))                      \
    NODE(STORE_BFLOAT16, KeepRounded(*node))               \
    NODE(CAST_BFLOAT16, KeepCast(*node))                   \
    NODE(ROUND_HALF, RoundHalf())                          \
    NODE(ROUND_BFLOAT16, RoundBFloat16())                  \
    NODE(ADDS, template Scalar<Opcode::ADDS>(*node))       \
    NODE(MULS, template Scalar<Opcode::MULS>(*node))       \
    NODE(MAXS, template Scalar<Opcode::MAXS>(*node))       \
    NODE(MINS, template Scalar<Opcode::MINS>(*node))       \
    NODE(EXP, Exponential())                               \
    NODE(LN, template Unary<Opcode::LN>())                 \
    NODE(SQRT, template Unary<Opcode::SQRT>())             \
    NODE(ABS, template Unary<Opcode::ABS>())               \
    NODE(RELU, template Unary<Opcode::RELU>())             \
    NODE(AXPY, AddScaled(*node))                           \
    NODE(SUM, template Collect<Opcode::ADD>(*node))        \
    NODE(LARGEST, template Collect<Opcode::MAX>(*node))    \
    NODE(SMALLEST, template Collect<Opcode::MIN>(*node))

#define HOST_BINARY_NODES_OF(NODE, OP) \
    NODE(OP, STREAM) NODE(OP, STREAM_HALF) NODE(OP, STREAM_BFLOAT16) NODE(OP, BLOCK) NODE(OP, SELF)
#define HOST_BINARY_NODES(NODE)     \
    HOST_BINARY_NODES_OF(NODE, ADD) \
    HOST_BINARY_NODES_OF(NODE, SUB) \
    HOST_BINARY_NODES_OF(NODE, MUL) \
    HOST_BINARY_NODES_OF(NODE, DIV) \
    HOST_BINARY_NODES_OF(NODE, MAX) \
    HOST_BINARY_NODES_OF(NODE, MIN) \
    HOST_BINARY_NODES_OF(NODE, AND) \
    HOST_BINARY_NODES_OF(NODE, OR)

// Runs a fused sequence on blocks of N vectors, or of one, not whole; where it stops. Every node jumps to the next:
// there is no loop and no switch between them.
template <uint32_t N, bool WHOLE>
uint32_t RunNodes(const BoundNode* nodes, uint32_t begin, uint32_t end)
{
#define HOST_NODE(NODE, ACTION) &&NODE,
#define HOST_BINARY_NODE(OP, OTHER) &&OP##_##OTHER, &&OP##_##OTHER##_SWAPPED,
    static const void* const code[] = {HOST_NODES(HOST_NODE) && END, HOST_BINARY_NODES(HOST_BINARY_NODE)};
#undef HOST_NODE
#undef HOST_BINARY_NODE
    static_assert(
        sizeof(code) / sizeof(code[0]) == static_cast<uint32_t>(BinaryNode(Opcode::OR, Other::SELF, true)) + 1,
        "HOST_NODES must name every node");
    SequenceBlock<N, WHOLE> block;
    const BoundNode* node = nodes;
    block.at = begin;
    block.n = WHOLE ? W : end - begin;
    if (WHOLE && end - begin < N * W) {
        return begin;
    }
    goto* code[static_cast<uint32_t>(node->kind)];
#define HOST_NODE(NODE, ACTION) \
    NODE:                       \
    block.ACTION;               \
    ++node;                     \
    goto* code[static_cast<uint32_t>(node->kind)];
#define HOST_BINARY_NODE(OP, OTHER)                                                                      \
    HOST_NODE(OP##_##OTHER, template Binary<Opcode::OP HOST_COMMA Other::OTHER HOST_COMMA false>(*node)) \
    HOST_NODE(OP##_##OTHER##_SWAPPED, template Binary<Opcode::OP HOST_COMMA Other::OTHER HOST_COMMA true>(*node))
#define HOST_COMMA ,
    HOST_NODES(HOST_NODE)
    HOST_BINARY_NODES(HOST_BINARY_NODE)
#undef HOST_COMMA
#undef HOST_NODE
#undef HOST_BINARY_NODE
END:
    block.at += WHOLE ? N * W : block.n;
    if (WHOLE && end - block.at >= N * W) {
        node = nodes;
        goto* code[static_cast<uint32_t>(node->kind)];
    }
    return static_cast<uint32_t>(block.at);
}

inline void RunSequence(const BoundNode* nodes, uint32_t begin, uint32_t end)
{
    constexpr uint32_t N = 8;  // as many as leave registers for constants; 16 are no faster
    uint32_t at = RunNodes<N, true>(nodes, begin, end);
    at = RunNodes<1, true>(nodes, at, end);
    if (at < end) {
        RunNodes<1, false>(nodes, at, end);
    }
}

}  // namespace HOST_ISA
}  // namespace host
}  // namespace AscendC

#endif  // ASCENDC_HOST_SIMD_FUSED_SEQUENCE_UNIT_H
