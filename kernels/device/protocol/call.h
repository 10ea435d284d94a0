/*!
 * Encodes one call of an operator on the emulated device as bytes: the host's libraries (nnopbase, opapi) put it into a
 * stream and the device process reads. A call is a name and a list of values; a kernel of a package is a call, too.
 *
 * Layout, little endian, no padding: the name (a text), the count of values (u32), then each value: its kind (u8) and
 *
 *   NONE        nothing
 *   TENSOR      the address of element 0 of the storage (u64), dtype (i32, an aclDataType), offset in elements (i64),
 *               rank (u32), sizes (i64 each), strides in elements (i64 each), elements of the storage (u64)
 *   TENSORS     a count (u32), then that many tensors as above
 *   INT         i64; also a bool, an aclDataType or an enumeration
 *   REAL        f64
 *   SCALAR      dtype (i32), 16 bytes (an aclScalar; complex numbers take both halves)
 *   INTS        a count (u32), i64 each; also booleans
 *   REALS       a count (u32), f64 each
 *   TEXT, BLOB  bytes (u32), then the bytes
 *
 * A text is a count of bytes (u32) and the bytes.
 */
#ifndef MS_ASCEND_OPS_DEVICE_PROTOCOL_CALL_H
#define MS_ASCEND_OPS_DEVICE_PROTOCOL_CALL_H

#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace ms_ascend_ops {
namespace device {

enum class ValueKind : uint8_t {
    NONE = 0,
    TENSOR = 1,
    TENSORS = 2,
    INT = 3,
    REAL = 4,
    SCALAR = 5,
    INTS = 6,
    REALS = 7,
    TEXT = 8,
    BLOB = 9
};

struct TensorView {
    uint64_t address = 0;
    int32_t dtype = 0;
    int64_t offset = 0;
    std::vector<int64_t> shape;
    std::vector<int64_t> strides;
    uint64_t storageElements = 0;
};

class CallWriter {
public:
    explicit CallWriter(std::string_view name)
    {
        Text(name);
        countAt_ = bytes_.size();
        Put(uint32_t{0});
    }

    void None() { Kind(ValueKind::NONE); }
    void Tensor(const TensorView& tensor)
    {
        Kind(ValueKind::TENSOR);
        View(tensor);
    }
    void Tensors(const std::vector<TensorView>& tensors)
    {
        Kind(ValueKind::TENSORS);
        Put(static_cast<uint32_t>(tensors.size()));
        for (const TensorView& tensor : tensors) {
            View(tensor);
        }
    }
    void Int(int64_t value)
    {
        Kind(ValueKind::INT);
        Put(value);
    }
    void Real(double value)
    {
        Kind(ValueKind::REAL);
        Put(value);
    }
    void Scalar(int32_t dtype, const uint8_t (&value)[16])
    {
        Kind(ValueKind::SCALAR);
        Put(dtype);
        Append(value, sizeof(value));
    }
    void Ints(const std::vector<int64_t>& values) { List(ValueKind::INTS, values); }
    void Reals(const std::vector<double>& values) { List(ValueKind::REALS, values); }
    void String(std::string_view value)
    {
        Kind(ValueKind::TEXT);
        Text(value);
    }
    void Blob(const void* data, size_t size)
    {
        Kind(ValueKind::BLOB);
        Text({static_cast<const char*>(data), size});
    }

    const std::vector<uint8_t>& Bytes() const { return bytes_; }

private:
    void Kind(ValueKind kind)
    {
        uint32_t count;
        std::memcpy(&count, bytes_.data() + countAt_, sizeof(count));
        ++count;
        std::memcpy(bytes_.data() + countAt_, &count, sizeof(count));
        Put(kind);
    }
    void View(const TensorView& tensor)
    {
        Put(tensor.address);
        Put(tensor.dtype);
        Put(tensor.offset);
        Put(static_cast<uint32_t>(tensor.shape.size()));
        Append(tensor.shape.data(), tensor.shape.size() * sizeof(int64_t));
        Append(tensor.strides.data(), tensor.strides.size() * sizeof(int64_t));
        Put(tensor.storageElements);
    }
    template <typename T>
    void List(ValueKind kind, const std::vector<T>& values)
    {
        Kind(kind);
        Put(static_cast<uint32_t>(values.size()));
        Append(values.data(), values.size() * sizeof(T));
    }
    void Text(std::string_view text)
    {
        Put(static_cast<uint32_t>(text.size()));
        Append(text.data(), text.size());
    }
    template <typename T>
    void Put(const T& value)
    {
        Append(&value, sizeof(value));
    }
    void Append(const void* data, size_t size)
    {
        const size_t at = bytes_.size();
        bytes_.resize(at + size);
        if (size > 0) {
            std::memcpy(bytes_.data() + at, data, size);
        }
    }

    std::vector<uint8_t> bytes_;
    size_t countAt_ = 0;
};

// Reads what CallWriter wrote; the reader gets values in their order and throws where a value has another kind.
class CallReader {
public:
    CallReader(const void* data, size_t size) : at_(static_cast<const uint8_t*>(data)), end_(at_ + size)
    {
        name_ = Text();
        count_ = Take<uint32_t>();
    }

    std::string_view Name() const { return name_; }
    uint32_t Count() const { return count_; }
    ValueKind Next() const
    {
        if (at_ == end_) {
            throw std::invalid_argument("call: there is no further value");
        }
        return static_cast<ValueKind>(*at_);
    }
    // A tensor that is absent has no value: false.
    bool Tensor(TensorView& tensor)
    {
        if (Next() == ValueKind::NONE) {
            ++at_;
            return false;
        }
        Expect(ValueKind::TENSOR);
        tensor = View();
        return true;
    }
    std::vector<TensorView> Tensors()
    {
        Expect(ValueKind::TENSORS);
        std::vector<TensorView> tensors(Take<uint32_t>());
        for (TensorView& tensor : tensors) {
            tensor = View();
        }
        return tensors;
    }
    int64_t Int()
    {
        Expect(ValueKind::INT);
        return Take<int64_t>();
    }
    double Real()
    {
        Expect(ValueKind::REAL);
        return Take<double>();
    }
    std::string_view String()
    {
        Expect(ValueKind::TEXT);
        return Text();
    }
    std::string_view Blob()
    {
        Expect(ValueKind::BLOB);
        return Text();
    }

private:
    void Expect(ValueKind kind)
    {
        if (Next() != kind) {
            throw std::invalid_argument("call: a value has another kind than its reader expects");
        }
        ++at_;
    }
    TensorView View()
    {
        TensorView tensor;
        tensor.address = Take<uint64_t>();
        tensor.dtype = Take<int32_t>();
        tensor.offset = Take<int64_t>();
        const uint32_t rank = Take<uint32_t>();
        for (std::vector<int64_t>* list : {&tensor.shape, &tensor.strides}) {
            for (uint32_t axis = 0; axis < rank; ++axis) {
                list->push_back(Take<int64_t>());
            }
        }
        tensor.storageElements = Take<uint64_t>();
        return tensor;
    }
    std::string_view Text()
    {
        const uint32_t size = Take<uint32_t>();
        Need(size);
        const std::string_view text(reinterpret_cast<const char*>(at_), size);
        at_ += size;
        return text;
    }
    template <typename T>
    T Take()
    {
        Need(sizeof(T));
        T value;
        std::memcpy(&value, at_, sizeof(T));
        at_ += sizeof(T);
        return value;
    }
    void Need(size_t size) const
    {
        if (static_cast<size_t>(end_ - at_) < size) {
            throw std::invalid_argument("call: it ends in the middle of a value");
        }
    }

    const uint8_t* at_;
    const uint8_t* end_;
    std::string_view name_;
    uint32_t count_ = 0;
};

}  // namespace device
}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_DEVICE_PROTOCOL_CALL_H
