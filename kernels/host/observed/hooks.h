/*!
 * Implements the hooks of observe.h in an observed build: they turn the arguments of API functions into operands, and
 * hand these on.
 */
#ifndef ASCENDC_HOST_OBSERVED_HOOKS_H
#define ASCENDC_HOST_OBSERVED_HOOKS_H

#include "observed/observer.h"
#include "observed/settings.h"
#include "runtime/core.h"

namespace AscendC {

template <typename T>
class LocalTensor;
template <typename T>
class GlobalTensor;

namespace host {

// ---- the other side of the hooks (hooks.cpp)

uint32_t OffsetInUnifiedBuffer(const char* address);
GlobalOperand GlobalAt(const char* address, Origin origin, uint64_t bytes, Dtype dtype);
void ReportVector(Where where, const char* name, const Request& request, Access* accesses, uint32_t count);
void ReportCopy(const CopySite& site, bool toLocal, const LocalOperand& local, const GlobalOperand& global,
                const CopyShape& shape);
void ReportScalar(Where where, const char* name, bool written, const LocalOperand* local, const GlobalOperand* global);
void ReportWrongIndex(Where where, bool isUnassigned, uint32_t offset, uint32_t bytes);
Origin ReportQueue(Where where, QueueCall call, Tag tag, const LocalOperand& local);
Tag ReportInit(Where where, const Buffer& kind, uint32_t count, uint32_t askedBytes, uint32_t offset);
Origin GlobalOrigin(const void* address);

void ReportProduct(Where where, ProductCall call, MatmulState& matmul, const Product* product = nullptr,
                   const GlobalOperand* result = nullptr, bool sync = true, bool willWait = false);

// ---- operands

template <typename T>
LocalOperand LocalOf(const LocalTensor<T>& tensor)
{
    LocalOperand operand;
    operand.offset = OffsetInUnifiedBuffer(tensor.Address());
    operand.bytes = static_cast<uint32_t>(tensor.GetSize() * sizeof(T));
    operand.dtype = DtypeOf<T>();
    operand.position = static_cast<TPosition>(tensor.GetPosition());
    operand.origin = tensor.GetOrigin();
    return operand;
}

template <typename T>
GlobalOperand GlobalOf(const GlobalTensor<T>& tensor)
{
    return GlobalAt(reinterpret_cast<const char*>(tensor.GetPhyAddr()), tensor.GetOrigin(),
                    tensor.GetSize() * sizeof(T), DtypeOf<T>());
}

// Accesses the elements of the request one after the other.
template <typename T>
Access AccessOf(const LocalTensor<T>& tensor)
{
    Access access;
    static_cast<LocalOperand&>(access) = LocalOf(tensor);
    access.repeatStride = -1;  // gapless
    return access;
}
inline Access AccessOf(const Access& access)
{
    return access;
}

// Accesses the lanes of the request, with strides in blocks.
template <typename T>
Access Strided(const LocalTensor<T>& tensor, uint32_t blkStride, uint32_t repStride)
{
    Access access = AccessOf(tensor);
    access.blkStride = blkStride;
    access.repStride = repStride;
    access.blockStride = static_cast<int64_t>(blkStride) * ONE_BLK_SIZE;
    access.repeatStride = static_cast<int64_t>(repStride) * ONE_BLK_SIZE;
    return access;
}

// In each repeat `lanes` elements, whatever the mask says; `repStride` is what the call gave for strideBytes.
template <typename T>
Access PerRepeat(const LocalTensor<T>& tensor, uint32_t lanes, int64_t strideBytes, uint32_t repStride,
                 uint32_t blkStride = 1)
{
    Access access = Strided(tensor, blkStride, repStride);
    access.repeatStride = strideBytes;
    access.lanes = lanes;
    access.lastLanes = lanes;
    return access;
}

// Does what PerRepeat does, but every other block lies `pairStep` blocks behind the one before it, and those lie
// `blkStride` apart.
template <typename T>
Access PairsPerRepeat(const LocalTensor<T>& tensor, uint32_t lanes, int64_t strideBytes, uint32_t repStride,
                      uint32_t blkStride, uint32_t pairStep)
{
    if (blkStride == pairStep || blkStride == 2 * pairStep) {
        return PerRepeat(tensor, lanes, strideBytes, repStride, pairStep);
    }
    Access access = PerRepeat(tensor, lanes, strideBytes, repStride, blkStride);
    access.pairStride = int64_t{pairStep} * ONE_BLK_SIZE;
    return access;
}

// `count` elements in a row, whatever the request says; 0: some bytes of the tensor, anywhere.
template <typename T>
Access Elements(const LocalTensor<T>& tensor, uint32_t count)
{
    Access access = PerRepeat(tensor, count, 0, 0);
    access.indirect = count == 0;
    access.repeats = 0;
    return access;
}

// ---- hooks

template <class... OPERANDS>
void ObserveVector(Where where, const char* name, const Request& request, const OPERANDS&... operands)
{
    static_assert(sizeof...(operands) <= MAX_ACCESSES);
    Access accesses[] = {AccessOf(operands)...};
    accesses[0].written = true;
    ReportVector(where, name, request, accesses, sizeof...(operands));
}

// dst: where the data goes, after the left padding of a DataCopyPad.
template <typename T>
void ObserveCopy(const CopySite& site, const LocalTensor<T>& dst, const GlobalTensor<T>& src, const CopyShape& shape)
{
    ReportCopy(site, true, LocalOf(dst), GlobalOf(src), shape);
}

template <typename T>
void ObserveCopy(const CopySite& site, const GlobalTensor<T>& dst, const LocalTensor<T>& src, const CopyShape& shape)
{
    ReportCopy(site, false, LocalOf(src), GlobalOf(dst), shape);
}

// A LocalTensor with this address and length is indexed.
inline void ObserveIndex(Where where, const char* address, uint32_t offset, uint32_t bytes)
{
    if (address == nullptr || offset >= bytes) {
        ReportWrongIndex(where, address == nullptr, offset, bytes);
    }
}

template <typename T>
void ObserveScalar(Where where, const char* name, const LocalTensor<T>& tensor, uint32_t index, bool written)
{
    const LocalOperand element = LocalOf(tensor[Index(index, where)]);
    ReportScalar(where, name, written, &element, nullptr);
}

template <typename T>
void ObserveScalar(Where where, const char* name, const GlobalTensor<T>& tensor, uint64_t index, bool written)
{
    const GlobalOperand element = GlobalOf(tensor[index]);
    ReportScalar(where, name, written, nullptr, &element);
}

void ObserveSetting(Where where, const char* name, SettingCall call, Dtype dtype = Dtype::FLOAT, uint64_t high = 0,
                    uint64_t low = 0, bool isCounter = false);
void ObserveSync(Where where, SyncCall call);
void ObserveSync(Where where, SyncCall call, HardEvent event, int32_t id);
void ObserveSync(Where where, SyncCall call, pipe_t barrier);
TEventID ObserveEvent(Where where, EventCall call, HardEvent event, int32_t id = 0);

// AllocTensor and DeQue return the buffer's address.
inline Origin ObserveQueue(Where where, QueueCall call, Tag tag, const char* address, Dtype dtype)
{
    LocalOperand operand;
    operand.offset = OffsetInUnifiedBuffer(address);
    operand.dtype = dtype;
    return ReportQueue(where, call, tag, operand);
}

// EnQue and FreeTensor
template <typename T>
Origin ObserveQueue(Where where, QueueCall call, Tag tag, const LocalTensor<T>& tensor)
{
    return ReportQueue(where, call, tag, LocalOf(tensor));
}

template <class QUEUE>
Tag ObserveInit(Where where, const QUEUE&, uint32_t count, uint32_t askedBytes, uint32_t offset)
{
    Buffer kind{};
    kind.position = QUEUE::srcPosition;
    kind.isQueue = QUEUE::depth > 0;
    kind.depth = QUEUE::depth;
    kind.producer = QUEUE::srcPosition == TPosition::VECIN ? PIPE_MTE2 : PIPE_V;
    kind.consumer = QUEUE::dstPosition == TPosition::VECCALC ? PIPE_V : PIPE_MTE3;
    return ReportInit(where, kind, count, askedBytes, offset);
}

void ObserveReset(Where where);

template <class TILING>
void ObserveMatmulInit(Where where, MatmulState& matmul, const TILING& tiling, const MatmulForm& form)
{
    const auto count = [](int32_t value) { return static_cast<uint32_t>(value); };
    matmul.limits = {true,
                     count(tiling.singleCoreM),
                     count(tiling.singleCoreN),
                     count(tiling.singleCoreK),
                     count(tiling.baseM),
                     count(tiling.baseN),
                     count(tiling.baseK),
                     form,
                     form.takesBias && tiling.isBias != 0};
    ReportProduct(where, ProductCall::INIT, matmul);
}

// SetTensorA, SetTensorB and SetBias: `forbidden`, if it is transposed and its MatmulType does not allow that.
template <typename T>
void ObserveMatmulOperand(MatmulState& matmul, GlobalOperand& operand, const GlobalTensor<T>& tensor, bool forbidden)
{
    operand = GlobalOf(tensor);
    matmul.transposed = matmul.transposed || forbidden;
}

template <typename T>
void ObserveProduct(Where where, MatmulState& matmul, const Product& product, const GlobalTensor<T>& result, bool sync,
                    bool willWait)
{
    const GlobalOperand operand = GlobalOf(result);
    ReportProduct(where, ProductCall::ITERATE_ALL, matmul, &product, &operand, sync, willWait);
}
inline void ObserveIterate(Where where, MatmulState& matmul, const Product& whole)
{
    ReportProduct(where, ProductCall::ITERATE, matmul, &whole);
}
// Reports a block; `first` is the element of `result` where it begins.
template <typename T>
void ObserveBlock(Where where, MatmulState& matmul, const Product& block, const Product& whole,
                  const GlobalTensor<T>& result, int64_t first)
{
    const auto shift = [](GlobalOperand& operand, int64_t bytes) {
        operand.address += bytes;
        operand.offset += bytes;
        operand.bytes -= operand.bytes == 0 ? 0 : bytes;
    };
    MatmulState shifted = matmul;
    shift(shifted.a, block.a.data - whole.a.data);
    shift(shifted.b, block.b.data - whole.b.data);
    if (block.bias != nullptr) {
        shift(shifted.bias, (block.bias - whole.bias) * static_cast<int64_t>(sizeof(float)));
    }
    GlobalOperand operand = GlobalOf(result);
    shift(operand, first * static_cast<int64_t>(sizeof(T)));
    ReportProduct(where, ProductCall::GET_TENSOR_C, shifted, &block, &operand, true);
    matmul.blocks = 0;
}
inline void ObserveProductWait(Where where, MatmulState& matmul)
{
    ReportProduct(where, ProductCall::WAIT, matmul);
}
inline void ObserveMatmulEnd(Where where, MatmulState& matmul)
{
    ReportProduct(where, ProductCall::END, matmul);
}

inline Origin OriginOf(Tag tag)
{
    return {tag.firstBuffer, 0};
}

// Describes the tiling data that the next launch of this thread gives its kernel.
void DescribeTiling(const void* tiling, uint64_t bytes);

template <typename TILING>
void ObserveTiling(const TILING& tiling)
{
    DescribeTiling(&tiling, sizeof(tiling));
}

}  // namespace host
}  // namespace AscendC

#endif  // ASCENDC_HOST_OBSERVED_HOOKS_H
