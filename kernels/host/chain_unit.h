/*!
 * Runs chains (instruction.h), for vector_unit.cpp only.
 *
 * A block of several vectors stays in registers from link to link: the links are looked at once a block, and the
 * instructions of one link on several vectors hide each other's latency. Addresses of labels are an extension that GCC
 * and Clang share.
 */
#ifndef ASCENDC_HOST_CHAIN_UNIT_H
#define ASCENDC_HOST_CHAIN_UNIT_H

#include "arithmetic.h"

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
struct ChainBlock {
    VF value[N];
    size_t at;  // the first element
    uint32_t n = W;

    // Of the block in an operand. Vector k is a constant away from it; without the barrier GCC keeps an index for each
    // k.
    template <typename T>
    HOST_INLINE T* Address(const ChainLink& link) const
    {
        T* address = reinterpret_cast<T*>(link.base) + at;
        asm("" : "+r"(address));
        return address;
    }
    template <typename T>
    HOST_INLINE VF Read(const T* p) const
    {
        return WHOLE ? Load(p) : LoadPartial(p, n);
    }
    template <typename T>
    HOST_INLINE void Fetch(const ChainLink& link)
    {
        const T* source = Address<const T>(link);
#pragma GCC unroll 8
        for (uint32_t k = 0; k < N; ++k) {
            value[k] = Read(source + k * W);
        }
    }
    HOST_INLINE void Keep(const ChainLink& link) const
    {
        float* target = Address<float>(link);
#pragma GCC unroll 8
        for (uint32_t k = 0; k < N; ++k) {
            if (WHOLE) {
                Store(target + k * W, value[k]);
            } else {
                StorePartial(target + k * W, value[k], n);
            }
        }
    }
    HOST_INLINE void KeepHalf(const ChainLink& link) const
    {
#pragma GCC unroll 8
        for (uint32_t k = 0; k < N; ++k) {
            KeepBits(link, k, FloatToHalf(value[k]));
        }
    }
    HOST_INLINE void KeepRounded(const ChainLink& link) const
    {
        KeepUpperHalves(link, [this](uint32_t k) { return reinterpret_cast<VU>(value[k]); });
    }
    HOST_INLINE void KeepCast(const ChainLink& link) const
    {
        if (__builtin_expect(HaveNan(value), 0)) {
            KeepUpperHalves(link, [this](uint32_t k) { return RoundToBFloat16(value[k]); });
        } else {
            KeepUpperHalves(link, [this](uint32_t k) { return RoundNumberToBFloat16(value[k]); });
        }
    }
    template <class Bits>
    HOST_INLINE void KeepUpperHalves(const ChainLink& link, const Bits& bits) const
    {
        if constexpr (N % 2 == 0) {
            uint16_t* target = Address<uint16_t>(link);
#pragma GCC unroll 8
            for (uint32_t k = 0; k < N; k += 2) {
                const VHH two = UpperHalves(bits(k), bits(k + 1));
                memcpy(target + k * W, &two, sizeof(two));
            }
        } else {
#pragma GCC unroll 8
            for (uint32_t k = 0; k < N; ++k) {
                KeepBits(link, k, UpperHalves(bits(k)));
            }
        }
    }
    HOST_INLINE void KeepBits(const ChainLink& link, uint32_t k, VH bits) const
    {
        uint16_t* target = Address<uint16_t>(link) + k * W;
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
    HOST_INLINE void Scalar(const ChainLink& link)
    {
        const VF scalar = Set(link.scalar);
#pragma GCC unroll 8
        for (uint32_t k = 0; k < N; ++k) {
            value[k] = Arithmetic<OP>::Apply(value[k], scalar);
        }
    }
    HOST_INLINE void AddScaled(const ChainLink& link)
    {
        const VF scalar = Set(link.scalar);
        const float* stream = Address<const float>(link);
#pragma GCC unroll 8
        for (uint32_t k = 0; k < N; ++k) {
            value[k] = Arithmetic<Opcode::AXPY>::Apply(Read(stream + k * W), scalar, value[k]);
        }
    }
    template <Opcode OP, Other OTHER, bool SWAPPED>
    HOST_INLINE void Binary(const ChainLink& link)
    {
        using T = typename StreamElement<OTHER>::Type;
        constexpr bool STREAMS = OTHER != Other::BLOCK && OTHER != Other::SELF;
        const T* stream = STREAMS ? Address<const T>(link) : nullptr;
        const auto other = [&](uint32_t k) {
            return STREAMS                 ? Read(stream + k * W)
                   : OTHER == Other::BLOCK ? LoadBlock(reinterpret_cast<const float*>(link.base), at + k * W)
                                           : value[k];
        };
#pragma GCC unroll 8
        for (uint32_t k = 0; k < N; ++k) {
            value[k] = SWAPPED ? Arithmetic<OP>::Apply(other(k), value[k]) : Arithmetic<OP>::Apply(value[k], other(k));
        }
    }
    // The repeats come one after the other, as on the chip.
    template <Opcode OP>
    HOST_INLINE void Collect(const ChainLink& link) const
    {
        float* const lanes = reinterpret_cast<float*>(link.base);
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

// Every link and what it does, in the order of Link.
#define HOST_LINKS(LINK)                                   \
    LINK(LOAD_FLOAT, template Fetch<float>(*link))         \
    LINK(LOAD_HALF, template Fetch<half>(*link))           \
    LINK(LOAD_BFLOAT16, template Fetch<bfloat16_t>(*link)) \
    LINK(STORE_FLOAT, Keep(*link))                         \
    LINK(STORE_HALF, KeepHalf(*link))                      \
    LINK(STORE_BFLOAT16, KeepRounded(*link))               \
    LINK(CAST_BFLOAT16, KeepCast(*link))                   \
    LINK(ROUND_HALF, RoundHalf())                          \
    LINK(ROUND_BFLOAT16, RoundBFloat16())                  \
    LINK(ADDS, template Scalar<Opcode::ADDS>(*link))       \
    LINK(MULS, template Scalar<Opcode::MULS>(*link))       \
    LINK(MAXS, template Scalar<Opcode::MAXS>(*link))       \
    LINK(MINS, template Scalar<Opcode::MINS>(*link))       \
    LINK(EXP, Exponential())                               \
    LINK(LN, template Unary<Opcode::LN>())                 \
    LINK(SQRT, template Unary<Opcode::SQRT>())             \
    LINK(ABS, template Unary<Opcode::ABS>())               \
    LINK(RELU, template Unary<Opcode::RELU>())             \
    LINK(AXPY, AddScaled(*link))                           \
    LINK(SUM, template Collect<Opcode::ADD>(*link))        \
    LINK(LARGEST, template Collect<Opcode::MAX>(*link))    \
    LINK(SMALLEST, template Collect<Opcode::MIN>(*link))

#define HOST_BINARY_LINKS_OF(LINK, OP) \
    LINK(OP, STREAM) LINK(OP, STREAM_HALF) LINK(OP, STREAM_BFLOAT16) LINK(OP, BLOCK) LINK(OP, SELF)
#define HOST_BINARY_LINKS(LINK)     \
    HOST_BINARY_LINKS_OF(LINK, ADD) \
    HOST_BINARY_LINKS_OF(LINK, SUB) \
    HOST_BINARY_LINKS_OF(LINK, MUL) \
    HOST_BINARY_LINKS_OF(LINK, DIV) \
    HOST_BINARY_LINKS_OF(LINK, MAX) \
    HOST_BINARY_LINKS_OF(LINK, MIN) \
    HOST_BINARY_LINKS_OF(LINK, AND) \
    HOST_BINARY_LINKS_OF(LINK, OR)

// Runs a chain on blocks of N vectors, or of one, not whole; where it stops. Every link jumps to the next: there is no
// loop and no switch between them.
template <uint32_t N, bool WHOLE>
uint32_t RunLinks(const ChainLink* links, uint32_t begin, uint32_t end)
{
#define HOST_LINK(LINK, ACTION) &&LINK,
#define HOST_BINARY_LINK(OP, OTHER) &&OP##_##OTHER, &&OP##_##OTHER##_SWAPPED,
    static const void* const code[] = {HOST_LINKS(HOST_LINK) && END, HOST_BINARY_LINKS(HOST_BINARY_LINK)};
#undef HOST_LINK
#undef HOST_BINARY_LINK
    static_assert(
        sizeof(code) / sizeof(code[0]) == static_cast<uint32_t>(BinaryLink(Opcode::OR, Other::SELF, true)) + 1,
        "HOST_LINKS must name every link");
    ChainBlock<N, WHOLE> block;
    const ChainLink* link = links;
    block.at = begin;
    block.n = WHOLE ? W : end - begin;
    if (WHOLE && end - begin < N * W) {
        return begin;
    }
    goto* code[static_cast<uint32_t>(link->link)];
#define HOST_LINK(LINK, ACTION) \
    LINK:                       \
    block.ACTION;               \
    ++link;                     \
    goto* code[static_cast<uint32_t>(link->link)];
#define HOST_BINARY_LINK(OP, OTHER)                                                                      \
    HOST_LINK(OP##_##OTHER, template Binary<Opcode::OP HOST_COMMA Other::OTHER HOST_COMMA false>(*link)) \
    HOST_LINK(OP##_##OTHER##_SWAPPED, template Binary<Opcode::OP HOST_COMMA Other::OTHER HOST_COMMA true>(*link))
#define HOST_COMMA ,
    HOST_LINKS(HOST_LINK)
    HOST_BINARY_LINKS(HOST_BINARY_LINK)
#undef HOST_COMMA
#undef HOST_LINK
#undef HOST_BINARY_LINK
END:
    block.at += WHOLE ? N * W : block.n;
    if (WHOLE && end - block.at >= N * W) {
        link = links;
        goto* code[static_cast<uint32_t>(link->link)];
    }
    return static_cast<uint32_t>(block.at);
}

inline void RunChain(const ChainLink* links, uint32_t begin, uint32_t end)
{
    constexpr uint32_t N = 8;  // as many as leave registers for constants; 16 are no faster
    uint32_t at = RunLinks<N, true>(links, begin, end);
    at = RunLinks<1, true>(links, at, end);
    if (at < end) {
        RunLinks<1, false>(links, at, end);
    }
}

}  // namespace HOST_ISA
}  // namespace host
}  // namespace AscendC

#endif  // ASCENDC_HOST_CHAIN_UNIT_H
