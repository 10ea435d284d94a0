/*!
 * Implements DataCopy and DataCopyPad between global memory and the Unified Buffer.
 */
#ifndef ASCENDC_HOST_API_DATA_COPY_H
#define ASCENDC_HOST_API_DATA_COPY_H

#include "api/tensor.h"
#include "observed/observe.h"

namespace AscendC {
namespace host {

inline uint32_t RoundUpBlock(uint32_t bytes)
{
    return (bytes + ONE_BLK_SIZE - 1) / ONE_BLK_SIZE * ONE_BLK_SIZE;
}

template <typename T>
void CopyIn(const LocalTensor<T>& dst, const GlobalTensor<T>& src,
            const CopyShape& shape HOST_OBSERVED(, const CopySite& site))
{
    HOST_OBSERVED(ObserveCopy(site, dst, src, shape));
    if (shape.rows > 0 && shape.rowBytes > 0) {
        Core::Current().CopyIn(dst.Address(), reinterpret_cast<const char*>(src.GetPhyAddr()), shape, dst.GetStream());
    }
}

template <typename T>
void CopyOut(const GlobalTensor<T>& dst, const LocalTensor<T>& src,
             const CopyShape& shape HOST_OBSERVED(, const CopySite& site))
{
    HOST_OBSERVED(ObserveCopy(site, dst, src, shape));
    if (shape.rows > 0 && shape.rowBytes > 0) {
        Core::Current().CopyOut(reinterpret_cast<char*>(dst.GetPhyAddr(0)), src.Address(), shape);
    }
}

// `count` times value at dst and at every `stride` bytes after it, `rows` times in all.
template <typename T>
void FillRows(char* dst, T value, uint32_t count, uint32_t rows, int64_t stride)
{
    static_assert(sizeof(T) <= 4, "types of up to 32 bits only");
    if (rows == 0 || count == 0) {
        return;
    }
    Instruction& fill = Core::Current().Next();
    fill.operation = OperationOn(BitsOf(sizeof(T)), Opcode::FILL);
    fill.iterations = rows;
    fill.lanes = count;
    fill.operandCount = 1;
    fill.operands[0] = {dst, stride, count * static_cast<uint32_t>(sizeof(T))};
    memcpy(&fill.option, &value, sizeof(T));
    Core::Current().Issue();
}

}  // namespace host

// Copies `count` elements; as on the chip, whole blocks of 32 bytes: the elements behind the last one are dropped.
template <typename T>
void DataCopy(const LocalTensor<T>& dst, const GlobalTensor<T>& src, const uint32_t count HOST_WHERE)
{
    host::CopyIn(dst, src,
                 {1, static_cast<uint32_t>(count * sizeof(T) / ONE_BLK_SIZE * ONE_BLK_SIZE), 0, 0,
                  sizeof(T)} HOST_OBSERVED(, {where, "DataCopy", {host::CopyForm::COUNT, count}}));
}

template <typename T>
void DataCopy(const GlobalTensor<T>& dst, const LocalTensor<T>& src, const uint32_t count HOST_WHERE)
{
    host::CopyOut(dst, src,
                  {1, static_cast<uint32_t>(count * sizeof(T) / ONE_BLK_SIZE * ONE_BLK_SIZE), 0, 0,
                   sizeof(T)} HOST_OBSERVED(, {where, "DataCopy", {host::CopyForm::COUNT, count}}));
}

// Lengths and gaps are in blocks of 32 bytes.
template <typename T>
void DataCopy(const LocalTensor<T>& dst, const GlobalTensor<T>& src, const DataCopyParams& params HOST_WHERE)
{
    const uint32_t row = params.blockLen * ONE_BLK_SIZE;
    host::CopyIn(dst, src,
                 {params.blockCount, row, row + params.dstStride * int64_t{ONE_BLK_SIZE},
                  row + params.srcStride * int64_t{ONE_BLK_SIZE},
                  sizeof(T)} HOST_OBSERVED(, {where, "DataCopy", {host::CopyForm::BLOCKS}}));
}

template <typename T>
void DataCopy(const GlobalTensor<T>& dst, const LocalTensor<T>& src, const DataCopyParams& params HOST_WHERE)
{
    const uint32_t row = params.blockLen * ONE_BLK_SIZE;
    host::CopyOut(dst, src,
                  {params.blockCount, row, row + params.dstStride * int64_t{ONE_BLK_SIZE},
                   row + params.srcStride * int64_t{ONE_BLK_SIZE},
                   sizeof(T)} HOST_OBSERVED(, {where, "DataCopy", {host::CopyForm::BLOCKS}}));
}

// Rows have blockLen bytes. In global memory srcStride bytes lie between two rows; in the Unified Buffer each row, with
// its padding, fills whole blocks, and dstStride blocks lie between two rows.
template <typename T>
void DataCopyPad(const LocalTensor<T>& dst, const GlobalTensor<T>& src, const DataCopyExtParams& params,
                 const DataCopyPadExtParams<T>& pad HOST_WHERE)
{
    host::Core::Current().BeforeCopyIn();
    const uint32_t left = pad.isPad ? pad.leftPadding : 0u;
    const uint32_t right = pad.isPad ? pad.rightPadding : 0u;
    const uint32_t padded = host::RoundUpBlock(params.blockLen + (left + right) * static_cast<uint32_t>(sizeof(T)));
    const int64_t ubStride = padded + params.dstStride * int64_t{ONE_BLK_SIZE};
    if (pad.isPad) {
        const uint32_t leftBytes = left * static_cast<uint32_t>(sizeof(T));
        const uint32_t dataEnd = leftBytes + params.blockLen;
        host::FillRows(dst.Address(), pad.paddingValue, left, params.blockCount, ubStride);
        host::FillRows(dst.Address() + dataEnd, pad.paddingValue, (padded - dataEnd) / static_cast<uint32_t>(sizeof(T)),
                       params.blockCount, ubStride);
    }
    host::CopyIn(dst[left], src,
                 {params.blockCount, params.blockLen, ubStride, int64_t{params.blockLen} + params.srcStride,
                  sizeof(T)} HOST_OBSERVED(, {where,
                                              "DataCopyPad",
                                              {host::CopyForm::PAD, 0, pad.isPad, pad.leftPadding, pad.rightPadding}}));
}

template <typename T>
void DataCopyPad(const GlobalTensor<T>& dst, const LocalTensor<T>& src, const DataCopyExtParams& params HOST_WHERE)
{
    const int64_t ubStride = host::RoundUpBlock(params.blockLen) + params.srcStride * int64_t{ONE_BLK_SIZE};
    host::CopyOut(dst, src,
                  {params.blockCount, params.blockLen, int64_t{params.blockLen} + params.dstStride, ubStride,
                   sizeof(T)} HOST_OBSERVED(, {where, "DataCopyPad", {host::CopyForm::PAD}}));
}

// From here on copies to global memory add to the values there. The order among cores is not fixed.
template <typename T>
void SetAtomicAdd(HOST_WHERE_ONLY)
{
    HOST_OBSERVED(host::ObserveSetting(where, "SetAtomicAdd", host::SettingCall::ATOMIC_ADD, host::DtypeOf<T>()));
    static_assert(std::is_same<T, float>::value, "SetAtomicAdd of the host layer adds float");
    host::Core::Current().atomicAdd = true;
}

inline void SetAtomicNone(HOST_WHERE_ONLY)
{
    HOST_OBSERVED(host::ObserveSetting(where, "SetAtomicNone", host::SettingCall::ATOMIC_NONE));
    host::Core::Current().atomicAdd = false;
}

}  // namespace AscendC

#endif  // ASCENDC_HOST_API_DATA_COPY_H
