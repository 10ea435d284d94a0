/*!
 * Ascend C calls of the host layer, for Python tests.
 *
 * A Program is a list of calls on byte offsets: into one Unified Buffer, and into one array that is global memory.
 * run() plays one program per core in one of four variants: as kernels run (deferred), with everything recorded carried
 * out after every call (serial), with the recorded instructions run after some calls while views stay (flushed), or as
 * a launch that came before (replayed).
 */
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "host/jit/loop_code.h"
#include "host/kernel_operator.h"
#include "host/lib/matmul_intf.h"
#include "host/passes/lookups.h"
#include "host/runtime/non_temporal.h"
#include "simd/vector_unit.h"

namespace py = pybind11;
using namespace AscendC;

namespace {

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

template <typename T>
T FromBits(uint32_t bits)
{
    T value;
    memcpy(&value, &bits, sizeof(T));
    return value;
}

[[noreturn]] void Unknown(const std::string& what)
{
    throw std::invalid_argument("host_calls: unknown " + what);
}

// Calls `body` with a value of the named type.
template <class BODY>
void WithNumber(const std::string& dtype, BODY&& body)
{
    if (dtype == "float32") {
        body(float{});
    } else if (dtype == "int32") {
        body(int32_t{});
    } else if (dtype == "float16") {
        body(half{});
    } else {
        Unknown("dtype " + dtype);
    }
}

template <class BODY>
void WithAny(const std::string& dtype, BODY&& body)
{
    if (dtype == "bfloat16") {
        body(bfloat16_t{});
    } else {
        WithNumber(dtype, body);
    }
}

// Overload sets as values: NAME in its count form, its repeat form, and its repeat form with the mask register.
#define OVERLOADS(NAME, FUNCTION)                                                       \
    struct NAME {                                                                       \
        template <typename T, class... ARGUMENTS>                                       \
        void operator()(const LocalTensor<T>& dst, const ARGUMENTS&... arguments) const \
        {                                                                               \
            FUNCTION(dst, arguments...);                                                \
        }                                                                               \
        template <typename T, class... ARGUMENTS>                                       \
        void Unmasked(const LocalTensor<T>& dst, const ARGUMENTS&... arguments) const   \
        {                                                                               \
            FUNCTION<T, false>(dst, arguments...);                                      \
        }                                                                               \
    };
OVERLOADS(AddCall, AscendC::Add)
OVERLOADS(SubCall, AscendC::Sub)
OVERLOADS(MulCall, AscendC::Mul)
OVERLOADS(DivCall, AscendC::Div)
OVERLOADS(MaxCall, AscendC::Max)
OVERLOADS(MinCall, AscendC::Min)
OVERLOADS(AddsCall, AscendC::Adds)
OVERLOADS(MulsCall, AscendC::Muls)
OVERLOADS(MaxsCall, AscendC::Maxs)
OVERLOADS(MinsCall, AscendC::Mins)
OVERLOADS(ExpCall, AscendC::Exp)
OVERLOADS(LnCall, AscendC::Ln)
OVERLOADS(SqrtCall, AscendC::Sqrt)
OVERLOADS(AbsCall, AscendC::Abs)
OVERLOADS(ReluCall, AscendC::Relu)
#undef OVERLOADS

// Calls `body` with the named overload set and a value of the named type.
template <class BODY>
void WithBinary(const std::string& op, const std::string& dtype, BODY&& body)
{
    const auto number = [&](auto call) { WithNumber(dtype, [&](auto type) { body(call, type); }); };
    if (op == "Add") {
        number(AddCall{});
    } else if (op == "Sub") {
        number(SubCall{});
    } else if (op == "Mul") {
        number(MulCall{});
    } else if (op == "Max") {
        number(MaxCall{});
    } else if (op == "Min") {
        number(MinCall{});
    } else if (op == "Div") {
        if (dtype == "float32") {
            body(DivCall{}, float{});
        } else if (dtype == "float16") {
            body(DivCall{}, half{});
        } else {
            Unknown("dtype of Div " + dtype);
        }
    } else {
        Unknown("binary instruction " + op);
    }
}

template <class BODY>
void WithScalar(const std::string& op, const std::string& dtype, BODY&& body)
{
    const auto number = [&](auto call) {
        if (dtype == "float32") {
            body(call, float{});
        } else if (dtype == "int32") {
            body(call, int32_t{});
        } else {
            Unknown("dtype of " + op + " " + dtype);
        }
    };
    if (op == "Adds") {
        number(AddsCall{});
    } else if (op == "Muls") {
        number(MulsCall{});
    } else if (op == "Maxs") {
        number(MaxsCall{});
    } else if (op == "Mins") {
        number(MinsCall{});
    } else {
        Unknown("scalar instruction " + op);
    }
}

template <class BODY>
void WithUnary(const std::string& op, const std::string& dtype, BODY&& body)
{
    const auto number = [&](auto call) {
        if (dtype == "float32") {
            body(call, float{});
        } else if (dtype == "float16") {
            body(call, half{});
        } else {
            Unknown("dtype of " + op + " " + dtype);
        }
    };
    if (op == "Exp") {
        number(ExpCall{});
    } else if (op == "Ln") {
        number(LnCall{});
    } else if (op == "Sqrt") {
        number(SqrtCall{});
    } else if (op == "Abs") {
        number(AbsCall{});
    } else if (op == "Relu") {
        number(ReluCall{});
    } else {
        Unknown("unary instruction " + op);
    }
}

// The conversions A2 has among the four types.
template <class BODY>
void WithCast(const std::string& to, const std::string& from, BODY&& body)
{
    const std::string name = from + "->" + to;
    if (name == "float16->float32") {
        body(float{}, half{});
    } else if (name == "bfloat16->float32") {
        body(float{}, bfloat16_t{});
    } else if (name == "float32->float16") {
        body(half{}, float{});
    } else if (name == "float32->bfloat16") {
        body(bfloat16_t{}, float{});
    } else if (name == "float32->float32") {
        body(float{}, float{});
    } else if (name == "float32->int32") {
        body(int32_t{}, float{});
    } else if (name == "float16->int32") {
        body(int32_t{}, half{});
    } else if (name == "bfloat16->int32") {
        body(int32_t{}, bfloat16_t{});
    } else if (name == "int32->float32") {
        body(float{}, int32_t{});
    } else {
        Unknown("conversion " + name);
    }
}

class Program {
public:
    std::vector<Call> calls;
    bool looks = false;  // at values: such a launch cannot be replayed
    const uint64_t number = ++count_;

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
                if (setMask) {
                    call(c.Local<T>(dst), c.Local<T>(src0), c.Local<T>(src1), mask, repeats, params);
                } else {
                    call.Unmasked(c.Local<T>(dst), c.Local<T>(src0), c.Local<T>(src1), MASK_PLACEHOLDER, repeats,
                                  params);
                }
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
                if (setMask) {
                    call(c.Local<T>(dst), c.Local<T>(src), value, mask, repeats, params);
                } else {
                    call.Unmasked(c.Local<T>(dst), c.Local<T>(src), value, MASK_PLACEHOLDER, repeats, params);
                }
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
            calls.push_back([=](Context& c) {
                if (setMask) {
                    call(c.Local<T>(dst), c.Local<T>(src), mask, repeats, params);
                } else {
                    call.Unmasked(c.Local<T>(dst), c.Local<T>(src), MASK_PLACEHOLDER, repeats, params);
                }
            });
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
        WithAny(dtype, [&](auto type) {
            using T = decltype(type);
            calls.push_back([=](Context& c) { Duplicate(c.Local<T>(dst), FromBits<T>(valueBits), count); });
        });
    }
    void Broadcast(const std::string& dtype, uint32_t dst, uint32_t src, uint8_t repeats, uint16_t blkStride,
                   uint16_t repStride)
    {
        WithAny(dtype, [&](auto type) {
            using T = decltype(type);
            calls.push_back(
                [=](Context& c) { Brcb(c.Local<T>(dst), c.Local<T>(src), repeats, {blkStride, repStride}); });
        });
    }
    // The number of elements kept goes to the results.
    void Pattern(const std::string& dtype, uint32_t dst, uint32_t src, uint8_t pattern, bool reduceMode, uint32_t mask,
                 uint16_t repeats)
    {
        WithAny(dtype, [&](auto type) {
            using T = decltype(type);
            calls.push_back([=](Context& c) {
                uint64_t kept = 0;
                GatherMask(c.Local<T>(dst), c.Local<T>(src), pattern, reduceMode, mask, {1, repeats, 8, 0}, kept);
                c.results.push_back(kept);
            });
        });
    }
    void GatherOffsets(const std::string& dtype, uint32_t dst, uint32_t src, uint32_t offsets, uint32_t base,
                       uint32_t count, uint32_t srcElements)
    {
        WithAny(dtype, [&](auto type) {
            using T = decltype(type);
            calls.push_back([=](Context& c) {
                LocalTensor<T> source = c.Local<T>(src);
                source.SetSize(srcElements);
                Gather(c.Local<T>(dst), source, c.Local<uint32_t>(offsets), base, count);
            });
        });
    }
    void Transpose(const std::string& dtype, uint32_t dst, uint32_t dstStep, uint32_t src, uint32_t srcStep,
                   uint8_t repeats, uint16_t dstRepStride, uint16_t srcRepStride)
    {
        WithAny(dtype, [&](auto type) {
            using T = decltype(type);
            calls.push_back([=](Context& c) {
                LocalTensor<T> dstList[NCHW_CONV_ADDR_LIST_SIZE];
                LocalTensor<T> srcList[NCHW_CONV_ADDR_LIST_SIZE];
                for (int32_t i = 0; i < NCHW_CONV_ADDR_LIST_SIZE; ++i) {
                    dstList[i] = c.Local<T>(dst + i * dstStep * ONE_BLK_SIZE);
                    srcList[i] = c.Local<T>(src + i * srcStep * ONE_BLK_SIZE);
                }
                TransDataTo5HD(dstList, srcList, {false, false, repeats, dstRepStride, srcRepStride});
            });
        });
    }

    void CopyIn(const std::string& dtype, uint32_t ub, uint64_t gm, uint32_t count)
    {
        WithAny(dtype, [&](auto type) {
            using T = decltype(type);
            calls.push_back([=](Context& c) { DataCopy(c.Local<T>(ub), c.Global<T>(gm), count); });
        });
    }
    void CopyOut(const std::string& dtype, uint64_t gm, uint32_t ub, uint32_t count)
    {
        WithAny(dtype, [&](auto type) {
            using T = decltype(type);
            calls.push_back([=](Context& c) { DataCopy(c.Global<T>(gm), c.Local<T>(ub), count); });
        });
    }
    // shape: blockCount, blockLen, srcStride, dstStride, in blocks
    void CopyInBlocks(const std::string& dtype, uint32_t ub, uint64_t gm, const std::array<uint16_t, 4>& shape)
    {
        WithAny(dtype, [&](auto type) {
            using T = decltype(type);
            calls.push_back([=](Context& c) {
                DataCopy(c.Local<T>(ub), c.Global<T>(gm), DataCopyParams{shape[0], shape[1], shape[2], shape[3]});
            });
        });
    }
    void CopyOutBlocks(const std::string& dtype, uint64_t gm, uint32_t ub, const std::array<uint16_t, 4>& shape)
    {
        WithAny(dtype, [&](auto type) {
            using T = decltype(type);
            calls.push_back([=](Context& c) {
                DataCopy(c.Global<T>(gm), c.Local<T>(ub), DataCopyParams{shape[0], shape[1], shape[2], shape[3]});
            });
        });
    }
    // shape: blockCount, blockLen in bytes, srcStride, dstStride; pad: left, right, value
    void CopyInPad(const std::string& dtype, uint32_t ub, uint64_t gm, const std::array<uint32_t, 4>& shape, bool isPad,
                   const std::array<uint32_t, 3>& pad)
    {
        const DataCopyExtParams params(static_cast<uint16_t>(shape[0]), shape[1], shape[2], shape[3], 0);
        WithAny(dtype, [&](auto type) {
            using T = decltype(type);
            const DataCopyPadExtParams<T> padding(isPad, static_cast<uint8_t>(pad[0]), static_cast<uint8_t>(pad[1]),
                                                  FromBits<T>(pad[2]));
            calls.push_back([=](Context& c) { DataCopyPad(c.Queued<T>(ub), c.Global<T>(gm), params, padding); });
        });
    }
    void CopyOutPad(const std::string& dtype, uint64_t gm, uint32_t ub, const std::array<uint32_t, 4>& shape)
    {
        const DataCopyExtParams params(static_cast<uint16_t>(shape[0]), shape[1], shape[2], shape[3], 0);
        WithAny(dtype, [&](auto type) {
            using T = decltype(type);
            calls.push_back([=](Context& c) { DataCopyPad(c.Global<T>(gm), c.Local<T>(ub), params); });
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

enum class Execution { DEFERRED, SERIAL, FLUSHED, REPLAYED };

Execution ExecutionOf(const std::string& name)
{
    if (name == "deferred") {
        return Execution::DEFERRED;
    }
    if (name == "serial") {
        return Execution::SERIAL;
    }
    if (name == "flushed") {
        return Execution::FLUSHED;
    }
    return name == "replayed" ? Execution::REPLAYED : (Unknown("execution " + name), Execution::SERIAL);
}

void Play(const Program& program, Context& context, Execution execution)
{
    constexpr uint32_t CALLS_PER_FLUSH = 3;
    uint32_t done = 0;
    for (const Call& call : program.calls) {
        call(context);
        if (execution == Execution::SERIAL) {
            host::Core::Current().Fence();
        } else if (execution == Execution::FLUSHED && ++done % CALLS_PER_FLUSH == 0) {
            host::Core::Current().Flush();
        }
    }
    host::Core::Current().Fence();
}

using Bytes = py::array_t<uint8_t, py::array::c_style>;

// Runs program i on core i again and again, in other memory each time; the last time in `gm` and `images`, which are
// the Unified Buffers, and loaded and stored as global memory is. Returns how many programs ran in that last launch.
uint32_t Replay(const std::vector<const Program*>& programs, char* gm, size_t gmBytes, char* images, size_t ubBytes,
                uint64_t outputBytes, std::vector<std::vector<uint64_t>>& results)
{
    constexpr uint32_t TIMES = 3;
    const size_t imageBytes = programs.size() * ubBytes;
    std::string tiling;
    for (const Program* program : programs) {
        tiling += std::to_string(program->number) + ' ';
    }
    std::atomic<uint32_t> ran{0};
    std::vector<std::unique_ptr<char[]>> before;  // kept, so that each lies elsewhere
    for (uint32_t time = 1; time <= TIMES; ++time) {
        char* memory = gm;
        char* buffers = images;
        if (time < TIMES) {
            before.push_back(std::make_unique<char[]>(gmBytes + imageBytes));
            memory = before.back().get();
            buffers = memory + gmBytes;
            memcpy(memory, gm, gmBytes);
            memcpy(buffers, images, imageBytes);
        }
        ms_ascend_ops::LaunchMemory launched;
        launched.tensors[0] = {memory, memory + gmBytes};
        launched.tensors[1] = {buffers, buffers + imageBytes};
        launched.tensorCount = 2;
        launched.outputBytes = outputBytes;
        ran = 0;
        host::Launch({static_cast<uint32_t>(programs.size()), 0}, launched, tiling, [&](GM_ADDR) {
            const size_t block = static_cast<size_t>(GetBlockIdx());
            TPipe pipe;
            Context context;
            context.gm = memory;
            pipe.InitBuffer(context.buffer, host::UB_BYTES);
            GlobalTensor<float> image;
            image.SetGlobalBuffer(reinterpret_cast<float*>(buffers + block * ubBytes));
            const uint32_t floats = static_cast<uint32_t>(ubBytes / sizeof(float));
            DataCopy(context.Local<float>(0), image, floats);
            Play(*programs[block], context, Execution::REPLAYED);
            SetAtomicNone();
            DataCopy(image, context.Local<float>(0), floats);
            results[block] = std::move(context.results);
            ++ran;
        });
    }
    return ran;
}

// Runs program i on core i. `ub` (cores, bytes): what the Unified Buffers hold before, and after, from their start on.
// Returns what each program read by itself.
std::vector<std::vector<uint64_t>> Run(const std::vector<const Program*>& programs, Bytes& gm, Bytes& ub,
                                       const std::string& execution, uint64_t outputBytes)
{
    if (ub.ndim() != 2 || ub.shape(0) != static_cast<py::ssize_t>(programs.size()) ||
        ub.shape(1) > static_cast<py::ssize_t>(host::UB_BYTES)) {
        throw std::invalid_argument("host_calls: ub must have one row of Unified Buffer bytes per program");
    }
    const Execution how = ExecutionOf(execution);
    const size_t bytes = static_cast<size_t>(ub.shape(1));
    uint8_t* images = ub.mutable_data();
    char* memory = reinterpret_cast<char*>(gm.mutable_data());
    const size_t gmBytes = static_cast<size_t>(gm.nbytes());
    std::vector<std::vector<uint64_t>> results(programs.size());
    py::gil_scoped_release release;
    if (how == Execution::REPLAYED) {
        const bool looks = std::any_of(programs.begin(), programs.end(), [](const Program* p) { return p->looks; });
        const uint32_t ran =
            Replay(programs, memory, gmBytes, reinterpret_cast<char*>(images), bytes, outputBytes, results);
        // With several cores, the calling thread may have played a block that another had noted down.
        if (programs.size() == 1 && (ran > 0) != looks) {
            throw std::runtime_error(looks ? "host_calls: values were not looked at" : "host_calls: not replayed");
        }
        return results;
    }
    ms_ascend_ops::LaunchMemory launched;
    launched.tensors[0] = {memory, memory + gmBytes};
    launched.tensorCount = 1;
    launched.outputBytes = outputBytes;
    host::Launch({static_cast<uint32_t>(programs.size()), 0}, launched, "", [&](GM_ADDR) {
        const size_t block = static_cast<size_t>(GetBlockIdx());
        TPipe pipe;
        Context context;
        context.gm = memory;
        pipe.InitBuffer(context.buffer, host::UB_BYTES);
        memcpy(host::Core::Current().UnifiedBuffer(), images + block * bytes, bytes);
        Play(*programs[block], context, how);
        memcpy(images + block * bytes, host::Core::Current().UnifiedBuffer(), bytes);
        results[block] = std::move(context.results);
    });
    return results;
}

// What each core of a launch is told of the cores: its number, that of the blocks, which vector core of its block it
// is, and how many those are.
std::vector<std::array<int64_t, 4>> Cores(uint32_t count, bool share)
{
    std::vector<std::array<int64_t, 4>> told(count);
    py::gil_scoped_release release;
    host::Launch(
        {count, 0}, {}, "",
        [&](GM_ADDR) {
            told[static_cast<size_t>(GetBlockIdx())] = {GetBlockIdx(), GetBlockNum(), GetSubBlockIdx(),
                                                        GetTaskRation()};
        },
        share ? host::KernelType::MIX_AIC_1_2 : host::KernelType::AIV_ONLY);
    return told;
}

}  // namespace

PYBIND11_MODULE(host_calls, module)
{
    module.def("cores", &Cores);
    py::class_<Program>(module, "Program")
        .def(py::init<>())
        .def("set_mask", &Program::SetMask)
        .def("clear_mask", &Program::ClearMask)
        .def("binary", &Program::Binary)
        .def("binary_repeat", &Program::BinaryRepeat)
        .def("scalar", &Program::Scalar)
        .def("scalar_repeat", &Program::ScalarRepeat)
        .def("axpy", &Program::AxpyCount)
        .def("unary", &Program::Unary)
        .def("unary_repeat", &Program::UnaryRepeat)
        .def("cast", &Program::CastCount)
        .def("cast_numbers", &Program::CastNumbers)
        .def("cast_repeat", &Program::CastRepeat)
        .def("reduce_sum", &Program::ReduceSum)
        .def("reduce_max", &Program::ReduceMax)
        .def("bitwise", &Program::Bitwise)
        .def("trap", &Program::Trap)
        .def("wrong", &Program::Wrong)
        .def("fill", &Program::Fill)
        .def("broadcast", &Program::Broadcast)
        .def("pattern", &Program::Pattern)
        .def("gather", &Program::GatherOffsets)
        .def("transpose", &Program::Transpose)
        .def("copy_in", &Program::CopyIn)
        .def("copy_out", &Program::CopyOut)
        .def("copy_in_blocks", &Program::CopyInBlocks)
        .def("copy_out_blocks", &Program::CopyOutBlocks)
        .def("copy_in_pad", &Program::CopyInPad)
        .def("copy_out_pad", &Program::CopyOutPad)
        .def("atomic", &Program::Atomic)
        .def("get", &Program::Get)
        .def("set", &Program::Set)
        .def("gm_get", &Program::GmGet)
        .def("gm_set", &Program::GmSet)
        .def("free", &Program::Free)
        .def("sync", &Program::Sync)
        .def("block_idx", &Program::BlockIdx)
        .def("queues", &Program::Queues)
        .def("product", &Program::Product)
        .def_readonly_static("NONE", &Program::NONE);
    module.def("run", &Run, py::arg("programs"), py::arg("gm").noconvert(), py::arg("ub").noconvert(),
               py::arg("execution") = "deferred", py::arg("output_bytes") = 0);
    module.def("next_loop", [](bool wait) {
        py::object loop = py::none();
        const auto visit = [](void* context, uint32_t number, const char* name, const char* text) {
            *static_cast<py::object*>(context) = py::make_tuple(number, name, text);
        };
        host::NextLoop(wait, visit, &loop);
        return loop;
    });
    module.def("set_loop", [](uint32_t number, uintptr_t address) {
        host::SetLoop(number, reinterpret_cast<host::LoopFunction>(address));
    });
    module.def("set_loop_threshold", &host::SetLoopThreshold);
    module.def("set_non_temporal_bytes", &host::SetNonTemporalBytes);
    module.def("bypasses_caches", &host::BypassesCaches);
    module.def("set_lookups", [](uint64_t bytes, bool byElement) {
        host::SetLookups(bytes, byElement ? host::LookupMethod::BY_ELEMENT : host::LookupMethod::GATHERED);
    });
#if defined(__x86_64__)
    module.def("flush_subnormals", [](bool flush) {  // of this thread
        constexpr unsigned int FLUSH = 0x8040;       // of results and of operands
        __builtin_ia32_ldmxcsr(flush ? __builtin_ia32_stmxcsr() | FLUSH : __builtin_ia32_stmxcsr() & ~FLUSH);
    });
#endif
    module.def("thread_num", [] { return host::TheExecutor().ThreadNum(); });
    module.def("set_thread_num", [](uint32_t count) { host::TheExecutor().SetThreadNum(count); });
    module.def("core_num", [] { return host::TheExecutor().Platform().coreNum; });
    module.attr("UB_BYTES") = host::UB_BYTES;
    module.attr("VECTOR_UNIT") = host::g_vectorUnit->name;
}
