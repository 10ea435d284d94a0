/*!
 * Finds the few functions of oneDNN that products need at run time: MindSpore's wheel brings the library, and no
 * header.
 *
 * They are of oneDNN's C API of major version 3 (oneapi/dnnl/dnnl.h), which is stable. Without a thread pool a call
 * runs in the thread that makes it.
 */
#ifndef ASCENDC_HOST_CUBE_ONEDNN_H
#define ASCENDC_HOST_CUBE_ONEDNN_H

#include <cstdint>

namespace AscendC {
namespace host {

struct Product;

namespace onednn {
struct Functions;
struct EngineHandle;
}  // namespace onednn

class OneDnn {
public:
    // Null: it was not found, or is of another major version.
    static const OneDnn* Get();
    // "3.10.1", and the path, or why there is none.
    static const char* Version();
    static const char* Path();

    // The primitives of whole operators (operators/) are made with these functions, on oneDNN's engine.
    static const onednn::Functions& Functions();
    static onednn::EngineHandle* Engine();
    // Returns how many channels lie side by side in the memory of its fastest kernels.
    uint32_t BlockOfChannels() const { return packsRows_ ? 16 : 8; }

    // Returns true if products of these bfloat16 matrices are faster here than those of floats made of them.
    bool MultipliesBFloat16() const { return multipliesBFloat16_; }
    // Returns true if products of 8-bit integers are exact here: before VNNI sums of two products saturate at 16 bits.
    bool MultipliesIntegers() const { return multipliesIntegers_; }
    // Multiplies 8-bit integers, and adds up in 32 bits. False: oneDNN refused.
    bool MultiplyIntegers(const Product& product) const;
    // Multiplies floats or bfloat16, with c as `resultType` says: floats, or bfloat16 from bfloat16. False: oneDNN
    // refused.
    bool Multiply(const Product& product) const;
    // Computes c = a b or c += a b, of floats or bfloat16 into floats, without bias, as they lie in memory.
    bool Gemm(const Product& product) const;
    // Returns true if products read their operands in place for most sizes, so that how b lies in memory counts: with
    // AVX-512 oneDNN copies them.
    bool ReadsInPlace() const { return readsInPlace_; }
    // Returns true if oneDNN is fast with a b of floats that is not transposed: ahead of primitives if b is part of
    // wider rows, and of the vector unit from fewer rows of a on. With AVX-512.
    bool PacksRows() const { return packsRows_; }

private:
    friend class OneDnnLoader;

    bool Primitive(const Product& product) const;

    bool multipliesBFloat16_ = false;
    bool multipliesIntegers_ = false;
    bool readsInPlace_ = false;
    bool packsRows_ = false;
};

}  // namespace host
}  // namespace AscendC

#endif  // ASCENDC_HOST_CUBE_ONEDNN_H
