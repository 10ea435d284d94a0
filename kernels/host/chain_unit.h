/*!
 * Runs chains (instruction.h), for vector_unit.cpp only.
 *
 * A block of several vectors stays in registers from link to link: the links are looked at once a block, and the
 * instructions of one link on several vectors hide each other's latency.
 */
#ifndef ASCENDC_HOST_CHAIN_UNIT_H
#define ASCENDC_HOST_CHAIN_UNIT_H

#include "arithmetic.h"

namespace AscendC {
namespace host {
namespace HOST_ISA {

constexpr uint32_t SUM_LANES = ONE_REPEAT_BYTE_SIZE / sizeof(float);
constexpr uint32_t BLOCK_FLOATS = ONE_BLK_SIZE / sizeof(float);

// W elements of a block that repeats itself, from element `at` on.
HOST_INLINE VF LoadBlock(const char* base, [[maybe_unused]] size_t at)
{
    const float* block = reinterpret_cast<const float*>(base);
#if defined(HOST_SIMD_AVX512)
    return _mm512_broadcast_f32x8(_mm256_loadu_ps(block));
#else
    return Load(block + at % BLOCK_FLOATS);
#endif
}

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
    HOST_INLINE T* Address(const ChainItem& link) const
    {
        T* address = reinterpret_cast<T*>(link.operand->base) + at;
        asm("" : "+r"(address));
        return address;
    }
    template <typename T>
    HOST_INLINE VF Read(const T* p) const
    {
        return WHOLE ? Load(p) : LoadPartial(p, n);
    }
    template <typename T>
    HOST_INLINE void Fetch(const ChainItem& link)
    {
        const T* source = Address<const T>(link);
#pragma GCC unroll 8
        for (uint32_t k = 0; k < N; ++k) {
            value[k] = Read(source + k * W);
        }
    }
    HOST_INLINE void Keep(const ChainItem& link) const
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
    HOST_INLINE void KeepHalf(const ChainItem& link) const
    {
#pragma GCC unroll 8
        for (uint32_t k = 0; k < N; ++k) {
            KeepBits(link, k, FloatToHalf(value[k]));
        }
    }
    HOST_INLINE void KeepRounded(const ChainItem& link) const
    {
        KeepUpperHalves(link, [this](uint32_t k) { return reinterpret_cast<VU>(value[k]); });
    }
    HOST_INLINE void KeepCast(const ChainItem& link) const
    {
        if (__builtin_expect(HaveNan(value), 0)) {
            KeepUpperHalves(link, [this](uint32_t k) { return RoundToBFloat16(value[k]); });
        } else {
            KeepUpperHalves(link, [this](uint32_t k) { return RoundNumberToBFloat16(value[k]); });
        }
    }
    template <class Bits>
    HOST_INLINE void KeepUpperHalves(const ChainItem& link, const Bits& bits) const
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
    HOST_INLINE void KeepBits(const ChainItem& link, uint32_t k, VH bits) const
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
    template <Opcode OP>
    HOST_INLINE void Scalar(const ChainItem& link)
    {
        const VF scalar = Set(link.scalar);
#pragma GCC unroll 8
        for (uint32_t k = 0; k < N; ++k) {
            value[k] = Arithmetic<OP>::Apply(value[k], scalar);
        }
    }
    template <Opcode OP, Other OTHER, bool SWAPPED>
    HOST_INLINE void Binary(const ChainItem& link)
    {
        using T = typename StreamElement<OTHER>::Type;
        constexpr bool STREAMS = OTHER != Other::BLOCK && OTHER != Other::SELF;
        const T* stream = STREAMS ? Address<const T>(link) : nullptr;
        const auto other = [&](uint32_t k) {
            return STREAMS                 ? Read(stream + k * W)
                   : OTHER == Other::BLOCK ? LoadBlock(link.operand->base, at + k * W)
                                           : value[k];
        };
        if constexpr (OP == Opcode::DIV) {
            VF second[N];
#pragma GCC unroll 8
            for (uint32_t k = 0; k < N; ++k) {
                second[k] = SWAPPED ? value[k] : other(k);
                value[k] = SWAPPED ? other(k) : value[k];
            }
            Divide(value, second);
            return;
        }
#pragma GCC unroll 8
        for (uint32_t k = 0; k < N; ++k) {
            value[k] = SWAPPED ? Arithmetic<OP>::Apply(other(k), value[k]) : Arithmetic<OP>::Apply(value[k], other(k));
        }
    }
    // The repeats come one after the other, as on the chip.
    template <Opcode OP>
    HOST_INLINE void Collect(const ChainItem& link) const
    {
        float* const lanes = reinterpret_cast<float*>(link.operand->base);
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

    HOST_INLINE void Run(const ChainItem* links, uint32_t count)
    {
        for (uint32_t i = 0; i < count; ++i) {
            const ChainItem link = links[i];
            switch (static_cast<uint32_t>(link.link)) {
#define ASCENDC_HOST_LINK(LINK, ACTION)     \
    case static_cast<uint32_t>(Link::LINK): \
        ACTION;                             \
        break;
                ASCENDC_HOST_LINK(LOAD_FLOAT, Fetch<float>(link))
                ASCENDC_HOST_LINK(LOAD_HALF, Fetch<half>(link))
                ASCENDC_HOST_LINK(LOAD_BFLOAT16, Fetch<bfloat16_t>(link))
                ASCENDC_HOST_LINK(STORE_FLOAT, Keep(link))
                ASCENDC_HOST_LINK(STORE_HALF, KeepHalf(link))
                ASCENDC_HOST_LINK(STORE_BFLOAT16, KeepRounded(link))
                ASCENDC_HOST_LINK(CAST_BFLOAT16, KeepCast(link))
                ASCENDC_HOST_LINK(ROUND_HALF, RoundHalf())
                ASCENDC_HOST_LINK(ROUND_BFLOAT16, RoundBFloat16())
                ASCENDC_HOST_LINK(ADDS, Scalar<Opcode::ADDS>(link))
                ASCENDC_HOST_LINK(MULS, Scalar<Opcode::MULS>(link))
                ASCENDC_HOST_LINK(MAXS, Scalar<Opcode::MAXS>(link))
                ASCENDC_HOST_LINK(MINS, Scalar<Opcode::MINS>(link))
                ASCENDC_HOST_LINK(EXP, Unary<Opcode::EXP>())
                ASCENDC_HOST_LINK(LN, Unary<Opcode::LN>())
                ASCENDC_HOST_LINK(SQRT, Unary<Opcode::SQRT>())
                ASCENDC_HOST_LINK(ABS, Unary<Opcode::ABS>())
                ASCENDC_HOST_LINK(RELU, Unary<Opcode::RELU>())
                ASCENDC_HOST_LINK(SUM, Collect<Opcode::ADD>(link))
                ASCENDC_HOST_LINK(LARGEST, Collect<Opcode::MAX>(link))
                ASCENDC_HOST_LINK(SMALLEST, Collect<Opcode::MIN>(link))
#undef ASCENDC_HOST_LINK
#define ASCENDC_HOST_LINK(OP, OTHER)                                         \
    case static_cast<uint32_t>(BinaryLink(Opcode::OP, Other::OTHER, false)): \
        Binary<Opcode::OP, Other::OTHER, false>(link);                       \
        break;                                                               \
    case static_cast<uint32_t>(BinaryLink(Opcode::OP, Other::OTHER, true)):  \
        Binary<Opcode::OP, Other::OTHER, true>(link);                        \
        break;
#define ASCENDC_HOST_LINKS(OP)                                                                             \
    ASCENDC_HOST_LINK(OP, STREAM)                                                                          \
    ASCENDC_HOST_LINK(OP, STREAM_HALF) ASCENDC_HOST_LINK(OP, STREAM_BFLOAT16) ASCENDC_HOST_LINK(OP, BLOCK) \
        ASCENDC_HOST_LINK(OP, SELF)
                ASCENDC_HOST_LINKS(ADD)
                ASCENDC_HOST_LINKS(SUB)
                ASCENDC_HOST_LINKS(MUL)
                ASCENDC_HOST_LINKS(DIV)
                ASCENDC_HOST_LINKS(MAX)
                ASCENDC_HOST_LINKS(MIN)
#undef ASCENDC_HOST_LINKS
#undef ASCENDC_HOST_LINK
                default:
                    __builtin_unreachable();
            }
        }
    }
};

inline void RunChain(const ChainItem* items, uint32_t count, uint32_t begin, uint32_t end)
{
    constexpr uint32_t N = 8;  // as many as leave registers for constants; 16 are no faster
    uint32_t at = begin;
    for (; end - at >= N * W; at += N * W) {
        ChainBlock<N, true> block;
        block.at = at;
        block.Run(items, count);
    }
    for (; end - at >= W; at += W) {
        ChainBlock<1, true> block;
        block.at = at;
        block.Run(items, count);
    }
    if (at < end) {
        ChainBlock<1, false> block;
        block.at = at;
        block.n = end - at;
        block.Run(items, count);
    }
}

}  // namespace HOST_ISA
}  // namespace host
}  // namespace AscendC

#endif  // ASCENDC_HOST_CHAIN_UNIT_H
