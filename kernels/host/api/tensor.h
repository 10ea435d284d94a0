/*!
 * Implements GlobalTensor and LocalTensor.
 */
#ifndef ASCENDC_HOST_API_TENSOR_H
#define ASCENDC_HOST_API_TENSOR_H

#include "base/types.h"
#include "observed/observe.h"
#include "runtime/core.h"

namespace AscendC {

// LocalTensor has arithmetic of these element types.
namespace host {
template <typename T>
struct ElementTypeOf;
template <>
struct ElementTypeOf<float> {
    static constexpr ElementType value = ElementType::FLOAT;
};
template <>
struct ElementTypeOf<half> {
    static constexpr ElementType value = ElementType::HALF;
};
template <>
struct ElementTypeOf<bfloat16_t> {
    static constexpr ElementType value = ElementType::BFLOAT16;
};
template <>
struct ElementTypeOf<int8_t> {
    static constexpr ElementType value = ElementType::INT8;
};
template <>
struct ElementTypeOf<int32_t> {
    static constexpr ElementType value = ElementType::INT32;
};
}  // namespace host

template <typename T>
class GlobalTensor {
public:
    using PrimType = T;

    void SetGlobalBuffer(__gm__ T* buffer, uint64_t bufferSize)
    {
        address_ = buffer;
        size_ = bufferSize;
        HOST_OBSERVED(origin_ = host::GlobalOrigin(buffer));
    }
    void SetGlobalBuffer(__gm__ T* buffer) { SetGlobalBuffer(buffer, 0); }
    const __gm__ T* GetPhyAddr() const { return address_; }
    __gm__ T* GetPhyAddr(uint64_t offset) const { return address_ + offset; }
    uint64_t GetSize() const { return size_; }
    GlobalTensor operator[](uint64_t offset) const
    {
        GlobalTensor tensor;
        tensor.SetGlobalBuffer(address_ + offset, size_ > offset ? size_ - offset : 0);
        HOST_OBSERVED(tensor.origin_ = origin_);
        return tensor;
    }
    T GetValue(uint64_t offset HOST_WHERE) const
    {
        HOST_OBSERVED(host::ObserveScalar(where, "GetValue", *this, offset, false));
        host::Core::Current().Flush();
        return address_[offset];
    }
    void SetValue(uint64_t offset, T value HOST_WHERE)
    {
        HOST_OBSERVED(host::ObserveScalar(where, "SetValue", *this, offset, true));
        host::Core::Current().Flush();  // a replay would not write it
        host::Core::Current().Fence();
        address_[offset] = value;
    }

    HOST_OBSERVED(host::Origin GetOrigin() const { return origin_; })

private:
    T* address_ = nullptr;
    uint64_t size_ = 0;  // in elements; 0: unknown
    HOST_OBSERVED(host::Origin origin_;)
};

template <typename T>
class LocalTensor {
public:
    using PrimType = T;

    LocalTensor() = default;
    LocalTensor(char* address, uint32_t bytes, TPosition position,
                host::Stream* stream = nullptr HOST_OBSERVED(, host::Origin origin = host::Origin()))
        : address_(address), bytes_(bytes), position_(position), stream_(stream) HOST_OBSERVED(, origin_(origin))
    {}
    uint64_t GetPhyAddr() const { return reinterpret_cast<uint64_t>(address_); }
    int32_t GetPosition() const { return static_cast<int32_t>(position_); }
    uint32_t GetSize() const { return bytes_ / sizeof(T); }
    void SetSize(uint32_t size) { bytes_ = size * sizeof(T); }
    LocalTensor operator[](HOST_INDEX offset) const
    {
        const uint32_t skipped = offset * static_cast<uint32_t>(sizeof(T));
        HOST_OBSERVED(host::ObserveIndex(offset.where, address_, skipped, bytes_));
        return LocalTensor(address_ + skipped, bytes_ > skipped ? bytes_ - skipped : 0, position_,
                           stream_ HOST_OBSERVED(, origin_));
    }
    template <typename U>
    LocalTensor<U> ReinterpretCast() const
    {
        return LocalTensor<U>(address_, bytes_, position_ HOST_OBSERVED(, nullptr, origin_));
    }
    T GetValue(uint32_t index HOST_WHERE) const
    {
        HOST_OBSERVED(host::ObserveScalar(where, "GetValue", *this, index, false));
        T value;
        memcpy(&value, host::Core::Current().Read(address_ + index * sizeof(T)), sizeof(T));
        return value;
    }
    template <typename U>
    void SetValue(uint32_t index, U value HOST_WHERE) const
    {
        HOST_OBSERVED(host::ObserveScalar(where, "SetValue", *this, index, true));
        const T converted = static_cast<T>(value);
        host::Core::Current().Write(address_ + index * sizeof(T), &converted, sizeof(T));
    }

    // Only the host layer calls these.
    char* Address() const { return address_; }
    host::Stream* GetStream() const { return stream_; }
    HOST_OBSERVED(host::Origin GetOrigin() const { return origin_; })

private:
    char* address_ = nullptr;
    uint32_t bytes_ = 0;
    TPosition position_ = TPosition::VECCALC;
    host::Stream* stream_ = nullptr;  // of the queue this buffer belongs to
    HOST_OBSERVED(host::Origin origin_;)
};

}  // namespace AscendC

#endif  // ASCENDC_HOST_API_TENSOR_H
