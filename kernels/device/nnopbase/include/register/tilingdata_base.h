/*!
 * Implements CANN's tiling data: fields in the order of their definition, each aligned to its size, the whole to 8
 * bytes, as a C++ struct of the same fields lies in memory.
 */
#ifndef MS_ASCEND_OPS_DEVICE_REGISTER_TILINGDATA_BASE_H
#define MS_ASCEND_OPS_DEVICE_REGISTER_TILINGDATA_BASE_H

#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <vector>

namespace optiling {

class TilingDef {
public:
    void SaveToBuffer(void* data, size_t capacity) const
    {
        if (capacity < GetDataSize()) {
            throw std::length_error("the tiling data does not fit");
        }
        std::memset(data, 0, GetDataSize());
        std::memcpy(data, bytes_.data(), bytes_.size());
        for (const Struct& nested : structs_) {
            std::memcpy(static_cast<char*>(data) + nested.offset, nested.data, nested.size);
        }
    }
    size_t GetDataSize() const { return (bytes_.size() + 7) / 8 * 8; }

protected:
    size_t Add(size_t size)
    {
        const size_t offset = (bytes_.size() + size - 1) / size * size;
        bytes_.resize(offset + size, 0xFF);  // a field that nobody sets shows
        return offset;
    }
    // A struct of 32-bit fields, which lies in this object.
    size_t AddStruct(const void* data, size_t size)
    {
        const size_t offset = (bytes_.size() + 3) / 4 * 4;
        bytes_.resize(offset + size, 0xFF);
        structs_.push_back({data, size, offset});
        return offset;
    }
    void Set(size_t offset, const void* value, size_t size) { std::memcpy(bytes_.data() + offset, value, size); }

private:
    struct Struct {
        const void* data;
        size_t size;
        size_t offset;
    };

    std::vector<uint8_t> bytes_;
    std::vector<Struct> structs_;
};

}  // namespace optiling

#define BEGIN_TILING_DATA_DEF(name) \
    class name : public TilingDef { \
    public:
#define TILING_DATA_FIELD_DEF(type, field)         \
    void set_##field(type value)                   \
    {                                              \
        Set(field##Offset_, &value, sizeof(type)); \
    }                                              \
    size_t field##Offset_ = Add(sizeof(type))
#define TILING_DATA_FIELD_DEF_STRUCT(type, field) \
    type field{};                                 \
    size_t field##Offset_ = AddStruct(&field, sizeof(type))
#define END_TILING_DATA_DEF \
    }                       \
    ;
#define REGISTER_TILING_DATA_CLASS(op, name) \
    static_assert(sizeof(#op) > 1 && sizeof(name) > 0, "the class is defined before it is registered");

#endif  // MS_ASCEND_OPS_DEVICE_REGISTER_TILINGDATA_BASE_H
