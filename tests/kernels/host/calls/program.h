/*!
 * A program: a list of Ascend C calls on byte offsets, into one Unified Buffer and into one array that is global
 * memory.
 */
#ifndef TESTS_HOST_CALLS_PROGRAM_H
#define TESTS_HOST_CALLS_PROGRAM_H

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "host/kernel_operator.h"
#include "host/lib/matmul_intf.h"
#include "instructions.h"

namespace host_calls {

using namespace AscendC;

struct Context {
    TBuf<TPosition::VECCALC> buffer;
    char* gm = nullptr;
    std::vector<uint64_t> results;
    std::map<uint32_t, host::Stream> streams;  // by where in the Unified Buffer they go

    template <typename T>
    LocalTensor<T> Local(uint32_t offset)
    {
        return buffer.GetWithOffset<T>((host::UB_BYTES - offset) / sizeof(T), offset);
    }
    // Like a queue's: where the last copy came from tells what comes next.
    template <typename T>
    LocalTensor<T> Queued(uint32_t offset)
    {
        const LocalTensor<T> local = Local<T>(offset);
        return LocalTensor<T>(local.Address(), local.GetSize() * sizeof(T), TPosition::VECIN, &streams[offset]);
    }
    template <typename T>
    GlobalTensor<T> Global(uint64_t offset)
    {
        GlobalTensor<T> tensor;
        tensor.SetGlobalBuffer(reinterpret_cast<T*>(gm + offset));
        return tensor;
    }
};

using Call = std::function<void(Context&)>;

using Call = std::function<void(Context&)>;

// Calls an instruction by repeats; without `setMask` the mask register counts.
template <class CALL, class PARAMS, class... OPERANDS>
void ByRepeats(CALL call, uint64_t mask, uint8_t repeats, const PARAMS& params, bool setMask, OPERANDS... operands)
{
    if (setMask) {
        call(operands..., mask, repeats, params);
    } else {
        call.Unmasked(operands..., MASK_PLACEHOLDER, repeats, params);
    }
}

class Program {
public:
    std::vector<Call> calls;
    bool looks = false;  // at values: such a launch cannot be replayed
    const uint64_t number = ++count_;

    // A call with a value of the named type.
    template <class BODY>
    void Push(const std::string& dtype, BODY body)
    {
        WithType<Float32, Float16, Bfloat16, Int32>(
            dtype, [&](auto type) { calls.push_back([=](Context& c) { body(c, type); }); });
    }

    void SetMask(const std::string& mode, uint64_t high, uint64_t low)
    {
        if (mode == "counter") {
            calls.push_back([=](Context&) {
                SetMaskCount();
                SetVectorMask<float, MaskMode::COUNTER>(high, low);
            });
        } else {
            calls.push_back([=](Context&) {
                SetMaskNorm();
                SetVectorMask<float>(high, low);
            });
        }
    }
    void ClearMask()
    {
        calls.push_back([](Context&) {
            SetMaskNorm();
            ResetMask();
        });
    }

    // dst = src0 op src1 on `count` elements.
    void Binary(const std::string& op, const std::string& dtype, uint32_t dst, uint32_t src0, uint32_t src1, int count)
    {
        WithBinary(op, dtype, [&](auto call, auto type) {
            using T = decltype(type);
            calls.push_back([=](Context& c) { call(c.Local<T>(dst), c.Local<T>(src0), c.Local<T>(src1), count); });
        });
    }
    // The same by repeats; without `setMask` the mask register counts.
    void BinaryRepeat(const std::string& op, const std::string& dtype, uint32_t dst, uint32_t src0, uint32_t src1,
                      uint64_t mask, uint8_t repeats, const std::array<uint8_t, 6>& s, bool setMask)
    {
        const BinaryRepeatParams params(s[0], s[1], s[2], s[3], s[4], s[5]);
        WithBinary(op, dtype, [&](auto call, auto type) {
            using T = decltype(type);
            calls.push_back([=](Context& c) {
                ByRepeats(call, mask, repeats, params, setMask, c.Local<T>(dst), c.Local<T>(src0), c.Local<T>(src1));
            });
        });
    }

    void Scalar(const std::string& op, const std::string& dtype, uint32_t dst, uint32_t src, uint32_t valueBits,
                int count)
    {
        WithScalar(op, dtype, [&](auto call, auto type) {
            using T = decltype(type);
            const T value = FromBits<T>(valueBits);
            calls.push_back([=](Context& c) { call(c.Local<T>(dst), c.Local<T>(src), value, count); });
        });
    }
    void ScalarRepeat(const std::string& op, const std::string& dtype, uint32_t dst, uint32_t src, uint32_t valueBits,
                      uint64_t mask, uint8_t repeats, const std::array<uint8_t, 4>& s, bool setMask)
    {
        const UnaryRepeatParams params(s[0], s[1], s[2], s[3]);
        WithScalar(op, dtype, [&](auto call, auto type) {
            using T = decltype(type);
            const T value = FromBits<T>(valueBits);
            calls.push_back([=](Context& c) {
                ByRepeats(call, mask, repeats, params, setMask, c.Local<T>(dst), c.Local<T>(src), value);
            });
        });
    }

    // dst += src * scalar
    void AxpyCount(uint32_t dst, uint32_t src, uint32_t valueBits, int count)
    {
        const float value = FromBits<float>(valueBits);
        calls.push_back([=](Context& c) { AscendC::Axpy(c.Local<float>(dst), c.Local<float>(src), value, count); });
    }

    void Unary(const std::string& op, const std::string& dtype, uint32_t dst, uint32_t src, int count)
    {
        WithUnary(op, dtype, [&](auto call, auto type) {
            using T = decltype(type);
            calls.push_back([=](Context& c) { call(c.Local<T>(dst), c.Local<T>(src), count); });
        });
    }
    void UnaryRepeat(const std::string& op, const std::string& dtype, uint32_t dst, uint32_t src, uint64_t mask,
                     uint8_t repeats, const std::array<uint8_t, 4>& s, bool setMask)
    {
        const UnaryRepeatParams params(s[0], s[1], s[2], s[3]);
        WithUnary(op, dtype, [&](auto call, auto type) {
            using T = decltype(type);
            calls.push_back(
                [=](Context& c) { ByRepeats(call, mask, repeats, params, setMask, c.Local<T>(dst), c.Local<T>(src)); });
        });
    }

    void CastCount(const std::string& to, const std::string& from, uint32_t dst, uint32_t src, int mode, uint32_t count)
    {
        WithCast(to, from, [&](auto target, auto source) {
            using T = decltype(target);
            using U = decltype(source);
            calls.push_back(
                [=](Context& c) { Cast(c.Local<T>(dst), c.Local<U>(src), static_cast<RoundMode>(mode), count); });
        });
    }
    // From numbers of 8 bits, or of 4, two in a byte, to half.
    void CastNumbers(uint32_t bits, uint32_t dst, uint32_t src, uint32_t count)
    {
        calls.push_back([=](Context& c) {
            if (bits == 4) {
                Cast(c.Local<half>(dst), c.Local<int4b_t>(src), RoundMode::CAST_NONE, count);
            } else {
                Cast(c.Local<half>(dst), c.Local<int8_t>(src), RoundMode::CAST_NONE, count);
            }
        });
    }
    void CastRepeat(const std::string& to, const std::string& from, uint32_t dst, uint32_t src, int mode, uint64_t mask,
                    uint8_t repeats, const std::array<uint8_t, 4>& s, bool setMask)
    {
        const UnaryRepeatParams params(s[0], s[1], s[2], s[3]);
        WithCast(to, from, [&](auto target, auto source) {
            using T = decltype(target);
            using U = decltype(source);
            calls.push_back([=](Context& c) {
                if (setMask) {
                    Cast(c.Local<T>(dst), c.Local<U>(src), static_cast<RoundMode>(mode), mask, repeats, params);
                } else {
                    Cast<T, U, false>(c.Local<T>(dst), c.Local<U>(src), static_cast<RoundMode>(mode), MASK_PLACEHOLDER,
                                      repeats, params);
                }
            });
        });
    }

    void ReduceSum(uint32_t dst, uint32_t src, int mask, int repeats, int dstRepStride, int srcRepStride)
    {
        calls.push_back([=](Context& c) {
            WholeReduceSum(c.Local<float>(dst), c.Local<float>(src), mask, repeats, dstRepStride, 1, srcRepStride);
        });
    }
    void ReduceMax(uint32_t dst, uint32_t src, int mask, int repeats, int dstRepStride, int srcRepStride)
    {
        calls.push_back([=](Context& c) {
            WholeReduceMax(c.Local<float>(dst), c.Local<float>(src), mask, repeats, dstRepStride, 1, srcRepStride,
                           ReduceOrder::ORDER_ONLY_VALUE);
        });
    }
    // With `block`, src1 is one DataBlock.
    void Bitwise(bool isOr, uint32_t dst, uint32_t src0, uint32_t src1, int count, bool block)
    {
        calls.push_back([=](Context& c) {
            const LocalTensor<uint16_t> to = c.Local<uint16_t>(dst);
            const LocalTensor<uint16_t> a = c.Local<uint16_t>(src0);
            const LocalTensor<uint16_t> b = c.Local<uint16_t>(src1);
            if (!block) {
                isOr ? Or(to, a, b, count) : And(to, a, b, count);
                return;
            }
            const BinaryRepeatParams params(1, 1, 0, 8, 8, 0);
            SetMaskCount();
            SetVectorMask<uint16_t, MaskMode::COUNTER>(0, static_cast<uint64_t>(count));
            isOr ? Or<uint16_t, false>(to, a, b, MASK_PLACEHOLDER, 1, params)
                 : And<uint16_t, false>(to, a, b, MASK_PLACEHOLDER, 1, params);
            SetMaskNorm();
            ResetMask();
        });
    }
    void Trap()
    {
        calls.push_back([](Context&) { AscendC::Trap(); });
    }
    // What a kernel may not do with its queues.
    void Wrong(const std::string& what)
    {
        calls.push_back([=](Context&) {
            TPipe pipe;
            TQue<TPosition::VECIN, 1> queue;
            if (what == "too large") {
                pipe.InitBuffer(queue, 2, host::UB_BYTES);
            } else if (what == "no buffers") {
                queue.AllocTensor<float>();
            } else if (what == "no tensor") {
                const LocalTensor<float> tensor;
                Adds(tensor, tensor, 1.0f, 8);
                SyncAll();
            } else {  // EnQue is forgotten the second time
                pipe.InitBuffer(queue, 1, ONE_BLK_SIZE);
                queue.EnQue(queue.AllocTensor<float>());
                queue.DeQue<float>();
                queue.AllocTensor<float>();
                queue.DeQue<float>();
            }
        });
    }
    void Fill(const std::string& dtype, uint32_t dst, uint32_t valueBits, int count)
    {
        Push(dtype, [=](Context& c, auto type) {
            using T = decltype(type);
            Duplicate(c.Local<T>(dst), FromBits<T>(valueBits), count);
        });
    }
    void Broadcast(const std::string& dtype, uint32_t dst, uint32_t src, uint8_t repeats, uint16_t blkStride,
                   uint16_t repStride)
    {
        Push(dtype, [=](Context& c, auto type) {
            using T = decltype(type);
            Brcb(c.Local<T>(dst), c.Local<T>(src), repeats, {blkStride, repStride});
        });
    }
    // The number of elements kept goes to the results.
    void Pattern(const std::string& dtype, uint32_t dst, uint32_t src, uint8_t pattern, bool reduceMode, uint32_t mask,
                 uint16_t repeats)
    {
        Push(dtype, [=](Context& c, auto type) {
            using T = decltype(type);
            uint64_t kept = 0;
            GatherMask(c.Local<T>(dst), c.Local<T>(src), pattern, reduceMode, mask, {1, repeats, 8, 0}, kept);
            c.results.push_back(kept);
        });
    }
    void GatherOffsets(const std::string& dtype, uint32_t dst, uint32_t src, uint32_t offsets, uint32_t base,
                       uint32_t count, uint32_t srcElements)
    {
        Push(dtype, [=](Context& c, auto type) {
            using T = decltype(type);
            LocalTensor<T> source = c.Local<T>(src);
            source.SetSize(srcElements);
            Gather(c.Local<T>(dst), source, c.Local<uint32_t>(offsets), base, count);
        });
    }
    void Transpose(const std::string& dtype, uint32_t dst, uint32_t dstStep, uint32_t src, uint32_t srcStep,
                   uint8_t repeats, uint16_t dstRepStride, uint16_t srcRepStride)
    {
        Push(dtype, [=](Context& c, auto type) {
            using T = decltype(type);
            LocalTensor<T> dstList[NCHW_CONV_ADDR_LIST_SIZE];
            LocalTensor<T> srcList[NCHW_CONV_ADDR_LIST_SIZE];
            for (int32_t i = 0; i < NCHW_CONV_ADDR_LIST_SIZE; ++i) {
                dstList[i] = c.Local<T>(dst + i * dstStep * ONE_BLK_SIZE);
                srcList[i] = c.Local<T>(src + i * srcStep * ONE_BLK_SIZE);
            }
            TransDataTo5HD(dstList, srcList, {false, false, repeats, dstRepStride, srcRepStride});
        });
    }

    void CopyIn(const std::string& dtype, uint32_t ub, uint64_t gm, uint32_t count)
    {
        Push(dtype, [=](Context& c, auto type) {
            using T = decltype(type);
            DataCopy(c.Local<T>(ub), c.Global<T>(gm), count);
        });
    }
    void CopyOut(const std::string& dtype, uint64_t gm, uint32_t ub, uint32_t count)
    {
        Push(dtype, [=](Context& c, auto type) {
            using T = decltype(type);
            DataCopy(c.Global<T>(gm), c.Local<T>(ub), count);
        });
    }
    // shape: blockCount, blockLen, srcStride, dstStride, in blocks
    void CopyInBlocks(const std::string& dtype, uint32_t ub, uint64_t gm, const std::array<uint16_t, 4>& shape)
    {
        Push(dtype, [=](Context& c, auto type) {
            using T = decltype(type);
            DataCopy(c.Local<T>(ub), c.Global<T>(gm), DataCopyParams{shape[0], shape[1], shape[2], shape[3]});
        });
    }
    void CopyOutBlocks(const std::string& dtype, uint64_t gm, uint32_t ub, const std::array<uint16_t, 4>& shape)
    {
        Push(dtype, [=](Context& c, auto type) {
            using T = decltype(type);
            DataCopy(c.Global<T>(gm), c.Local<T>(ub), DataCopyParams{shape[0], shape[1], shape[2], shape[3]});
        });
    }
    // shape: blockCount, blockLen in bytes, srcStride, dstStride; pad: left, right, value
    void CopyInPad(const std::string& dtype, uint32_t ub, uint64_t gm, const std::array<uint32_t, 4>& shape, bool isPad,
                   const std::array<uint32_t, 3>& pad)
    {
        const DataCopyExtParams params(static_cast<uint16_t>(shape[0]), shape[1], shape[2], shape[3], 0);
        Push(dtype, [=](Context& c, auto type) {
            using T = decltype(type);
            const DataCopyPadExtParams<T> padding(isPad, static_cast<uint8_t>(pad[0]), static_cast<uint8_t>(pad[1]),
                                                  FromBits<T>(pad[2]));
            DataCopyPad(c.Queued<T>(ub), c.Global<T>(gm), params, padding);
        });
    }
    void CopyOutPad(const std::string& dtype, uint64_t gm, uint32_t ub, const std::array<uint32_t, 4>& shape)
    {
        const DataCopyExtParams params(static_cast<uint16_t>(shape[0]), shape[1], shape[2], shape[3], 0);
        Push(dtype, [=](Context& c, auto type) {
            using T = decltype(type);
            DataCopyPad(c.Global<T>(gm), c.Local<T>(ub), params);
        });
    }
    void Atomic(bool add)
    {
        calls.push_back([=](Context&) {
            if (add) {
                SetAtomicAdd<float>();
            } else {
                SetAtomicNone();
            }
        });
    }

    void Get(uint32_t ub)
    {
        looks = true;
        calls.push_back([=](Context& c) { c.results.push_back(c.Local<uint32_t>(ub).GetValue(0)); });
    }
    void Set(uint32_t ub, uint32_t bits)
    {
        calls.push_back([=](Context& c) { c.Local<uint32_t>(ub).SetValue(0, bits); });
    }
    void GmGet(uint64_t gm)
    {
        looks = true;
        calls.push_back([=](Context& c) { c.results.push_back(c.Global<uint32_t>(gm).GetValue(0)); });
    }
    void GmSet(uint64_t gm, uint32_t bits)
    {
        looks = true;  // where it writes is not noted down
        calls.push_back([=](Context& c) { c.Global<uint32_t>(gm).SetValue(0, bits); });
    }
    // What FreeTensor of a queue's buffer does: its bytes are undefined until they are written again.
    void Free(uint32_t ub, uint32_t bytes)
    {
        calls.push_back([=](Context& c) { host::Core::Current().Discard(c.Local<uint8_t>(ub).Address(), bytes); });
    }
    void Sync()
    {
        calls.push_back([](Context&) { SyncAll(); });
    }
    void BlockIdx()
    {
        calls.push_back([](Context& c) { c.results.push_back(static_cast<uint64_t>(GetBlockIdx())); });
    }
    // gm[out + i] = gm[in + i] + 1 in float tiles, through queues of `buffers` buffers each.
    void Queues(uint64_t out, uint64_t in, uint32_t tiles, uint32_t tileLength, uint8_t buffers)
    {
        calls.push_back([=](Context& c) {
            TPipe pipe;
            TQue<TPosition::VECIN, 1> inQueue;
            TQue<TPosition::VECOUT, 1> outQueue;
            pipe.InitBuffer(inQueue, buffers, tileLength * sizeof(float));
            pipe.InitBuffer(outQueue, buffers, tileLength * sizeof(float));
            for (uint32_t tile = 0; tile < tiles; ++tile) {
                const uint64_t offset = uint64_t{tile} * tileLength * sizeof(float);
                LocalTensor<float> loaded = inQueue.AllocTensor<float>();
                DataCopy(loaded, c.Global<float>(in + offset), tileLength);
                inQueue.EnQue(loaded);
                LocalTensor<float> x = inQueue.DeQue<float>();
                LocalTensor<float> y = outQueue.AllocTensor<float>();
                Adds(y, x, 1.0f, static_cast<int32_t>(tileLength));
                inQueue.FreeTensor(x);
                outQueue.EnQue(y);
                LocalTensor<float> stored = outQueue.DeQue<float>();
                DataCopy(c.Global<float>(out + offset), stored, tileLength);
                outQueue.FreeTensor(stored);
            }
        });
    }

    // The product of `shape` (m, n, k) with base blocks of `base` (m, n), of matrices at `offsets` (a, b, bias, c) of
    // global memory: "all" at once, or "blocks" to their places in rows of orgKc, or one "behind" the other. A bias at
    // `NONE` is left out.
    void Product(const std::string& dtype, const std::string& way, std::array<int, 3> shape, std::array<int, 2> base,
                 std::array<bool, 2> transposed, std::array<uint64_t, 4> offsets, int orgKc, bool adds)
    {
        const bool halves = dtype == "float16";
        calls.push_back([=](Context& c) {
            if (halves) {
                Multiply<half>(c, way, shape, base, transposed, offsets, orgKc, adds);
            } else {
                Multiply<float>(c, way, shape, base, transposed, offsets, orgKc, adds);
            }
        });
    }
    static constexpr uint64_t NONE = ~uint64_t{0};

private:
    template <typename T>
    static void Multiply(Context& c, const std::string& way, std::array<int, 3> shape, std::array<int, 2> base,
                         std::array<bool, 2> transposed, std::array<uint64_t, 4> offsets, int orgKc, bool adds)
    {
        struct {
            int32_t M, N, Ka, Kb, singleCoreM, singleCoreN, singleCoreK, baseM, baseN, baseK, isBias;
        } tiling;
        tiling = {shape[0], shape[1], shape[2], shape[2], shape[0], shape[1], shape[2], base[0], base[1], 16, 1};
        TPipe pipe;
        using Operand = matmul::MatmulType<TPosition::GM, CubeFormat::ND, T, true>;
        using Result = matmul::MatmulType<TPosition::GM, CubeFormat::ND, float>;
        matmul::Matmul<Operand, Operand, Result, Result> product;
        REGIST_MATMUL_OBJ(&pipe, GetSysWorkSpacePtr(), product, &tiling);
        product.SetOrgShape(shape[0], shape[1], shape[2], shape[2], orgKc);
        product.SetTensorA(c.Global<T>(offsets[0]), transposed[0]);
        product.SetTensorB(c.Global<T>(offsets[1]), transposed[1]);
        if (offsets[2] != NONE) {
            product.SetBias(c.Global<float>(offsets[2]));
        }
        const uint8_t atomic = adds ? 1 : 0;
        uint64_t at = offsets[3];
        if (way == "all") {
            product.IterateAll(c.Global<float>(at), atomic);
        }
        while (way != "all" && product.Iterate()) {
            product.GetTensorC(c.Global<float>(at), atomic, way == "behind");
            c.results.push_back(at);
            at += way == "behind" ? uint64_t{4} * static_cast<uint64_t>(base[0] * base[1]) : 0;
        }
        product.End();
    }

    static inline uint64_t count_ = 0;
};

}  // namespace host_calls

#endif  // TESTS_HOST_CALLS_PROGRAM_H
