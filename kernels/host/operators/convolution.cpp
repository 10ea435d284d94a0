#include "operators/convolution.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <memory>
#include <new>
#include <string_view>
#include <type_traits>
#include <unordered_map>
#include <vector>

#include "cube/onednn.h"
#include "operators/element_type.h"
#include "operators/task_pool.h"
#include "runtime/default_arithmetic.h"
#include "runtime/executor.h"
#include "simd/convert.h"

namespace AscendC {
namespace host {
namespace convolutions {
namespace {

using namespace onednn;
using ms_ascend_ops::DataType;
using ms_ascend_ops::SizeOf;

static_assert(sizeof(Convolution) == 2 * sizeof(DataType) + 23 * sizeof(int64_t), "compared as bytes");

// ---- which implementation answers

enum class Format : uint8_t { ANY, FIRST, LAST, BLOCKS };  // the library's choice; where channels are; in blocks

struct Choice {
    Format x;
    Format y;
};

constexpr int64_t FEW_CHANNELS = 4;  // a block of channels would be empty for the most part

// Counts multiplications and additions.
double OperationsOf(const Convolution& c)
{
    return 2.0 * static_cast<double>(c.samples * c.outChannels * c.outHeight * c.outWidth) *
           static_cast<double>(c.channels / c.groups * c.kernelHeight * c.kernelWidth);
}

// How tensors lie in memory for the library's kernel, which brings them there and back: what was the fastest of all
// formats, and another where the library has no kernel for that; none where the kernel is faster. NCHW with all that,
// one thread of a Zen 4, milliseconds: float32 held to AVX2, float32 and bfloat16 with AVX-512; the kernel in brackets.
//     2x64x56x56, 3x3:        y 4.3 4.9 2.3 (5.7 5.7 3.4), dx 4.3 4.2 2.2, dweight 5.2 4.7 2.9 (5.2 5.3 2.9)
//     2x128x28x28, stride 2:  y 2.4 2.3 1.1 (3.3 3.5 2.2), dx 2.6 2.2 1.2, dweight 2.7 2.4 2.1 (2.7 2.8 1.6)
//     2x256x28x28, 1x1:       y 1.8 1.8 1.0 (2.0 2.0 1.1), dx 2.0 1.8 1.0, dweight 2.2 2.0 1.2 (2.0 2.0 1.0)
//     depthwise, 96, 7x7:     y 0.9 0.8 1.1 (19 19 17), dx 1.0 0.9 1.2, dweight 9.3 12 12 (17 17 18)
//     32 groups, 3x3:         y 1.3 0.7 0.4 (8.4 8.5 8.6), dx 0.8 0.7 0.4, dweight 0.9 0.9 0.9 (7.0 7.6 6.1)
//     2x3x224x224, 7x7, 2:    y 4.7 4.7 3.2 (11 12 10), dx 8.6 8.1 5.8, dweight 7.0 5.3 3.5 (12 13 9.3)
std::vector<Choice> ChoicesOf(const Convolution& c)
{
    constexpr Choice any{Format::ANY, Format::ANY};
    constexpr Choice last{Format::LAST, Format::LAST};
    constexpr Choice blocks{Format::BLOCKS, Format::BLOCKS};
    constexpr Choice first{Format::FIRST, Format::ANY};
    const bool isAvx512 = OneDnn::Get()->BlockOfChannels() == 16;
    const bool isLast = c.channelsLast != 0;
    const bool isBfloat16 = c.type == DataType::BFLOAT16 && OneDnn::Get()->MultipliesBFloat16();
    const bool isY = c.result == ConvolutionResult::Y;
    const bool isWeight = c.result == ConvolutionResult::DWEIGHT;
    constexpr double LEAST_OPERATIONS = 1 << 22;  // of dweight: a tenth of a millisecond
    if (isWeight && c.groups == 1 && OperationsOf(c) < LEAST_OPERATIONS) {
        return {};
    }
    const bool isPointwise = c.kernelHeight * c.kernelWidth == 1;
    if (c.groups == 1 && c.channels <= FEW_CHANNELS) {
        return {isAvx512 && isLast && isY ? any : first};
    }
    if (c.groups == c.channels && c.groups == c.outChannels) {  // depthwise
        if (isWeight) {
            return isLast ? std::vector<Choice>() : std::vector{blocks, last};
        }
        return {isLast && (isAvx512 || !isY) ? last : blocks};
    }
    if (isWeight) {
        const bool isSlower = c.groups == 1 && (isPointwise || isBfloat16);
        return isSlower ? std::vector<Choice>() : std::vector{isLast && c.groups == 1 && isAvx512 ? last : any};
    }
    if (isLast) {
        return {last};
    }
    if (c.groups > 1) {
        return {blocks, any};
    }
    const bool hasStride = c.strideHeight * c.strideWidth > 1;
    if (isPointwise && !hasStride) {
        return {first, any};
    }
    constexpr int64_t FEW_POSITIONS = 1024;
    const bool isSmall = hasStride || c.outHeight * c.outWidth < FEW_POSITIONS;
    return {!isAvx512 || (isY && isBfloat16 && isSmall) ? blocks : any, any};
}

// "ref", as in "jit_uni_ncsp:conv+ref:any", is a plain loop: the library knows no better for this CPU. Groups by
// matrices are the kernel's, too, and so are sums of dweight, which the kernel makes of shorter ones.
bool IsAhead(const Convolution& c, std::string_view implementation)
{
    const bool takesMatrices = c.groups == 1 && c.result != ConvolutionResult::DWEIGHT;
    return implementation.find("ref") == std::string_view::npos &&
           (takesMatrices || implementation.find("gemm") == std::string_view::npos);
}

// Threads that the library is told of: for each 8 million operations one, about a tenth of a millisecond, and a power
// of two, which threads share evenly. Smaller shares cost up to a tenth.
int SharesOf(const Convolution& c)
{
    constexpr double OPERATIONS = 1 << 23;
    constexpr int MOST = 64;
    const double operations = OperationsOf(c) * (c.groups > 1 ? 2.0 : 1.0);  // groups take twice the time
    int shares = 1;
    while (2 * shares <= MOST && 2 * shares * OPERATIONS <= operations) {
        shares *= 2;
    }
    return shares;
}

// Positions whose products the library adds up one after the other. The sums of bfloat16 that it makes in one go are
// off by less than their rounding.
int64_t MostPositions(DataType type)
{
    constexpr int64_t POSITIONS = 4096;
    return type == DataType::FLOAT32 ? POSITIONS : std::numeric_limits<int64_t>::max();
}

// ---- descriptions of tensors

struct FreeDesc {
    void operator()(MemoryDesc desc) const { OneDnn::Functions().memoryDescDestroy(desc); }
};
using OwnedDesc = std::unique_ptr<std::remove_pointer_t<MemoryDesc>, FreeDesc>;

struct Shape {
    int ndims;
    Dims dims;
    int order[5];  // of dims in memory, the outermost first

    int64_t Size() const
    {
        int64_t size = 1;
        for (int i = 0; i < ndims; ++i) {
            size *= dims[i];
        }
        return size;
    }
};

// A part of a tensor as it lies there.
OwnedDesc AsPartOf(const Shape& whole, const Shape& part, int type)
{
    Dims strides = {};
    int64_t stride = 1;
    for (int i = whole.ndims - 1; i >= 0; --i) {
        strides[whole.order[i]] = stride;
        // The stride of an outermost dim of one element counts for nothing, and primitives want a dense one.
        stride *= (i == 1 && part.dims[whole.order[0]] == 1 ? part : whole).dims[whole.order[i]];
    }
    MemoryDesc desc = nullptr;
    OneDnn::Functions().memoryDescCreate(&desc, part.ndims, part.dims, type, strides);
    return OwnedDesc(desc);
}

OwnedDesc AsItLies(const Shape& shape, int type)
{
    return AsPartOf(shape, shape, type);
}

constexpr int CHANNELS_FIRST[] = {0, 1, 2, 3};
constexpr int CHANNELS_LAST[] = {0, 2, 3, 1};

OwnedDesc InFormat(const Shape& shape, Format format, int type)
{
    if (format == Format::FIRST || format == Format::LAST) {
        Shape plain = shape;
        std::copy_n(format == Format::FIRST ? CHANNELS_FIRST : CHANNELS_LAST, 4, plain.order);
        return AsItLies(plain, type);
    }
    const int blocks = OneDnn::Get()->BlockOfChannels() == 16 ? TAG_BLOCKS_OF_16 : TAG_BLOCKS_OF_8;
    MemoryDesc desc = nullptr;
    OneDnn::Functions().memoryDescCreateWithTag(&desc, shape.ndims, shape.dims, type,
                                                format == Format::ANY ? TAG_ANY : blocks);
    return OwnedDesc(desc);
}

Shape ImageShape(const Convolution& c, int64_t channels, int64_t height, int64_t width)
{
    Shape shape{4, {c.samples, channels, height, width}, {}};
    std::copy_n(c.channelsLast != 0 ? CHANNELS_LAST : CHANNELS_FIRST, 4, shape.order);
    return shape;
}

// Groups, output channels, input channels, rows, columns; without groups the last four.
Shape WeightShape(const Convolution& c)
{
    Shape shape{
        5, {c.groups, c.outChannels / c.groups, c.channels / c.groups, c.kernelHeight, c.kernelWidth}, {0, 1, 2, 3, 4}};
    if (c.channelsLast != 0) {
        std::rotate(shape.order + 2, shape.order + 3, shape.order + 5);
    }
    if (c.weightTransposed != 0) {
        std::swap(*std::find(shape.order, shape.order + 5, 1), *std::find(shape.order, shape.order + 5, 2));
    }
    if (c.groups == 1) {
        shape.ndims = 4;
        std::copy_n(shape.dims + 1, 4, shape.dims);
        std::transform(shape.order + 1, shape.order + 5, shape.order, [](int dim) { return dim - 1; });
    }
    return shape;
}

// ---- plans: primitives for given sizes

constexpr size_t LINE_BYTES = 64;

size_t Lines(size_t bytes)
{
    return (bytes + LINE_BYTES - 1) / LINE_BYTES * LINE_BYTES;
}

struct State {
    TaskPool pool;
    ExecutionStream stream = nullptr;
    char* memory = nullptr;
    size_t bytes = 0;

    State() { OneDnn::Functions().streamCreateOnPool(&stream, OneDnn::Engine(), &pool); }

    char* Memory(size_t needed)
    {
        if (bytes < needed) {
            std::free(memory);
            bytes = 0;
            memory = static_cast<char*>(std::aligned_alloc(LINE_BYTES, needed));
            if (memory == nullptr) {
                throw std::bad_alloc();
            }
            bytes = needed;
        }
        return memory;
    }
};

// Holds a tensor of the caller's. Where a primitive computes with floats, they are made of other elements first.
class Elements {
public:
    void Create(int64_t size, DataType type, int primitiveType, bool isResult, size_t& bytes)
    {
        size_ = size;
        type_ = type;
        isResult_ = isResult;
        converts_ = primitiveType == F32 && type != DataType::FLOAT32;
        if (converts_) {
            floats_ = bytes;
            bytes += Lines(static_cast<size_t>(size) * sizeof(float));
        }
    }

    // Returns where they are.
    char* Begin(State& state, void* data)
    {
        data_ = static_cast<char*>(data);
        plain_ = converts_ ? state.memory + floats_ : data_;
        if (converts_ && !isResult_) {
            Convert(state);
        }
        return plain_;
    }
    void End(State& state) const
    {
        if (converts_ && isResult_) {
            Convert(state);
        }
    }

private:
    void Convert(State& state) const
    {
        constexpr int64_t PIECE = 16384;
        const ElementType type = ElementOf(type_);
        state.pool.ParallelFor(
            static_cast<int>(std::min<int64_t>((size_ + PIECE - 1) / PIECE, state.pool.ThreadNum())),
            [&](int index, int count) {
                const int64_t pieces = (size_ + PIECE - 1) / PIECE;
                const int64_t begin = pieces * index / count * PIECE;
                const auto length =
                    static_cast<uint32_t>(std::min(size_, pieces * (index + 1) / count * PIECE) - begin);
                char* const floats = plain_ + begin * static_cast<int64_t>(sizeof(float));
                char* const halves = data_ + begin * SizeOf(type_);
                if (isResult_) {
                    host::Convert(halves, type, length, floats, ElementType::FLOAT, length, 1, length);
                } else {
                    host::Convert(floats, ElementType::FLOAT, length, halves, type, length, 1, length);
                }
            });
    }

    int64_t size_ = 0;
    DataType type_ = DataType::FLOAT32;
    bool isResult_ = false;
    bool converts_ = false;
    size_t floats_ = 0;  // where they are in the state's memory
    char* data_ = nullptr;
    char* plain_ = nullptr;
};

// Brings the same elements into the order in which a primitive wants them.
class Ordered {
public:
    Ordered() = default;
    Ordered(const Ordered&) = delete;
    ~Ordered()
    {
        for (const Memory memory : {given_, inner_}) {
            if (memory != nullptr) {
                OneDnn::Functions().memoryDestroy(memory);
            }
        }
        if (reorder_ != nullptr) {
            OneDnn::Functions().primitiveDestroy(reorder_);
        }
    }

    // Takes memory behind `bytes` where they move.
    bool Create(MemoryDesc given, MemoryDesc wanted, bool isResult, size_t& bytes)
    {
        const auto& f = OneDnn::Functions();
        isResult_ = isResult;
        if (given == nullptr || f.memoryCreate(&inner_, wanted, OneDnn::Engine(), nullptr) != 0) {
            return false;
        }
        if (f.memoryDescEqual(given, wanted) != 0) {
            return true;
        }
        moved_ = bytes;
        bytes += Lines(f.memoryDescSize(wanted));
        PrimitiveDesc desc = nullptr;
        if (f.memoryCreate(&given_, given, OneDnn::Engine(), nullptr) != 0 ||
            f.reorderCreate(&desc, isResult ? wanted : given, OneDnn::Engine(), isResult ? given : wanted,
                            OneDnn::Engine(), nullptr) != 0) {
            return false;
        }
        const bool made = f.primitiveCreate(&reorder_, desc) == 0;
        f.primitiveDescDestroy(desc);
        return made;
    }

    // Before the primitive runs, and after it.
    bool Begin(State& state, char* plain) const
    {
        const auto& f = OneDnn::Functions();
        if (f.memorySetHandle(inner_, reorder_ == nullptr ? plain : state.memory + moved_) != 0) {
            return false;
        }
        return reorder_ == nullptr ||
               (f.memorySetHandle(given_, plain) == 0 && (isResult_ || Reorder(state, given_, inner_)));
    }
    bool End(State& state) const { return reorder_ == nullptr || !isResult_ || Reorder(state, inner_, given_); }

    bool Moves() const { return reorder_ != nullptr; }
    Memory Inner() const { return inner_; }

private:
    bool Reorder(State& state, Memory from, Memory to) const
    {
        const ExecArgument arguments[] = {{ARGUMENT_SRC, from}, {ARGUMENT_DST, to}};
        return OneDnn::Functions().primitiveExecute(reorder_, state.stream, 2, arguments) == 0;
    }

    bool isResult_ = false;
    size_t moved_ = 0;  // where they are in the state's memory
    Memory given_ = nullptr;
    Memory inner_ = nullptr;
    PrimitiveHandle reorder_ = nullptr;
};

struct FreePrimitiveDesc {
    void operator()(PrimitiveDesc desc) const { OneDnn::Functions().primitiveDescDestroy(desc); }
};
using OwnedPrimitiveDesc = std::unique_ptr<std::remove_pointer_t<PrimitiveDesc>, FreePrimitiveDesc>;

MemoryDesc WantedBy(const OwnedPrimitiveDesc& desc, int query)
{
    return OneDnn::Functions().primitiveDescQueryMemory(desc.get(), query, 0);
}

class Primitive {
public:
    Primitive() = default;
    Primitive(const Primitive&) = delete;
    ~Primitive()
    {
        if (handle_ != nullptr) {
            OneDnn::Functions().primitiveDestroy(handle_);
        }
    }

    bool Create(const OwnedPrimitiveDesc& desc)
    {
        return OneDnn::Functions().primitiveCreate(&handle_, desc.get()) == 0;
    }
    bool Run(const State& state, const ExecArgument* arguments, int count) const
    {
        return OneDnn::Functions().primitiveExecute(handle_, state.stream, count, arguments) == 0;
    }

private:
    PrimitiveHandle handle_ = nullptr;
};

class Plan {
public:
    virtual ~Plan() = default;
    // False: the library has failed.
    virtual bool Run(const ConvolutionTensors& tensors, State& state) = 0;

    std::string name;  // empty: the kernel answers
    int shares = 1;
    size_t bytes = 0;  // of the state's memory
};

Attributes WithActivation(ConvolutionActivation activation)
{
    constexpr int codes[] = {0, RELU, GELU_ERF, GELU_TANH, SWISH};
    if (activation == ConvolutionActivation::NONE) {
        return nullptr;
    }
    const auto& f = OneDnn::Functions();
    PostOps steps = nullptr;
    Attributes attributes = nullptr;
    f.postOpsCreate(&steps);
    const float alpha = activation == ConvolutionActivation::SILU ? 1.0f : 0.0f;
    f.postOpsAppendEltwise(steps, codes[static_cast<size_t>(activation)], alpha, 0.0f);
    f.attributesCreate(&attributes);
    f.attributesSetPostOps(attributes, steps);
    f.postOpsDestroy(steps);
    return attributes;
}

// `weight` is null where the library chooses the order.
OwnedPrimitiveDesc Describe(const Convolution& c, const Choice& choice, int type, MemoryDesc weight = nullptr)
{
    const auto& f = OneDnn::Functions();
    const OwnedDesc x = InFormat(ImageShape(c, c.channels, c.height, c.width), choice.x, type);
    const OwnedDesc y = InFormat(ImageShape(c, c.outChannels, c.outHeight, c.outWidth), choice.y, type);
    const int weightType = c.result == ConvolutionResult::DWEIGHT ? F32 : type;
    const OwnedDesc anyWeight = InFormat(WeightShape(c), Format::ANY, weightType);
    const OwnedDesc bias = AsItLies({1, {c.outChannels}, {0}}, F32);
    const Dims strides = {c.strideHeight, c.strideWidth};
    const Dims dilations = {c.dilationHeight - 1, c.dilationWidth - 1};
    const Dims before = {c.padTop, c.padLeft};
    const Dims behind = {c.padBottom, c.padRight};
    weight = weight == nullptr ? anyWeight.get() : weight;
    PrimitiveDesc desc = nullptr;
    if (c.result == ConvolutionResult::DX) {
        f.convolutionBackwardDataCreate(&desc, OneDnn::Engine(), CONVOLUTION_DIRECT, x.get(), weight, y.get(), strides,
                                        dilations, before, behind, nullptr, nullptr);
    } else if (c.result == ConvolutionResult::DWEIGHT) {
        f.convolutionBackwardWeightsCreate(&desc, OneDnn::Engine(), CONVOLUTION_DIRECT, x.get(), weight, nullptr,
                                           y.get(), strides, dilations, before, behind, nullptr, nullptr);
    } else {
        const Attributes attributes = WithActivation(c.activation);
        f.convolutionCreate(&desc, OneDnn::Engine(), FORWARD_INFERENCE, CONVOLUTION_DIRECT, x.get(), weight,
                            c.hasBias != 0 ? bias.get() : nullptr, y.get(), strides, dilations, before, behind,
                            attributes);
        if (attributes != nullptr) {
            f.attributesDestroy(attributes);
        }
    }
    return OwnedPrimitiveDesc(desc);
}

std::string NameOf(const OwnedPrimitiveDesc& desc)
{
    const char* implementation = "";
    OneDnn::Functions().primitiveDescQuery(desc.get(), QUERY_IMPLEMENTATION, 0, &implementation);
    return implementation;
}

// Finds the first choice for `whole` that is ahead of the kernel, for a part of it; or null.
struct Chosen {
    OwnedPrimitiveDesc desc;
    Choice choice;
    int type;
};

Chosen FirstAhead(const Convolution& whole, const Convolution& part)
{
    const bool bfloat16 = whole.type == DataType::BFLOAT16 && OneDnn::Get()->MultipliesBFloat16();
    for (const Choice& choice : ChoicesOf(whole)) {
        for (const int type : {BF16, F32}) {
            if (type == F32 || bfloat16) {
                OwnedPrimitiveDesc desc = Describe(part, choice, type);
                if (desc != nullptr && IsAhead(whole, NameOf(desc))) {
                    return {std::move(desc), choice, type};
                }
            }
        }
    }
    return {};
}

// Makes y, or the gradient of x. Where one of its parts cannot be made, the kernel answers.
class ImagePlan final : public Plan {
public:
    bool Create(const Convolution& c)
    {
        const Chosen chosen = FirstAhead(c, c);
        if (chosen.desc == nullptr || !primitive_.Create(chosen.desc)) {
            return false;
        }
        isX_ = c.result == ConvolutionResult::DX;
        const Shape x = ImageShape(c, c.channels, c.height, c.width);
        const Shape y = ImageShape(c, c.outChannels, c.outHeight, c.outWidth);
        const Shape bias{1, {c.outChannels}, {0}};
        hasBias_ = !isX_ && c.hasBias != 0;
        name = "oneDNN " + NameOf(chosen.desc);
        return x_.Create(x, c.type, chosen.type, WantedBy(chosen.desc, QUERY_SRC + (isX_ ? QUERY_DIFF : 0)), isX_,
                         bytes) &&
               weight_.Create(WeightShape(c), c.type, chosen.type, WantedBy(chosen.desc, QUERY_WEIGHTS), false,
                              bytes) &&
               y_.Create(y, c.type, chosen.type, WantedBy(chosen.desc, QUERY_DST + (isX_ ? QUERY_DIFF : 0)), !isX_,
                         bytes) &&
               (!hasBias_ || bias_.Create(bias, c.biasType, F32, AsItLies(bias, F32).get(), false, bytes));
    }

    bool Run(const ConvolutionTensors& tensors, State& state) override
    {
        const int diff = isX_ ? ARGUMENT_DIFF : 0;
        const ExecArgument arguments[] = {{ARGUMENT_SRC + diff, x_.order.Inner()},
                                          {ARGUMENT_WEIGHTS, weight_.order.Inner()},
                                          {ARGUMENT_DST + diff, y_.order.Inner()},
                                          {ARGUMENT_BIAS, bias_.order.Inner()}};
        return x_.Begin(state, tensors.x) && weight_.Begin(state, tensors.weight) && y_.Begin(state, tensors.y) &&
               (!hasBias_ || bias_.Begin(state, tensors.bias)) && primitive_.Run(state, arguments, hasBias_ ? 4 : 3) &&
               x_.End(state) && y_.End(state);
    }

private:
    struct Operand {
        Elements elements;
        Ordered order;

        bool Create(const Shape& shape, DataType type, int primitiveType, MemoryDesc wanted, bool isResult,
                    size_t& bytes)
        {
            elements.Create(shape.Size(), type, primitiveType, isResult, bytes);
            return order.Create(AsItLies(shape, primitiveType).get(), wanted, isResult, bytes);
        }
        bool Begin(State& state, void* data) { return order.Begin(state, elements.Begin(state, data)); }
        bool End(State& state) const
        {
            if (!order.End(state)) {
                return false;
            }
            elements.End(state);
            return true;
        }
    };

    bool isX_ = false;
    bool hasBias_ = false;
    Primitive primitive_;
    Operand x_, weight_, y_, bias_;
};

// The gradient of a bias sums dy over samples and positions. The library would add up all of them one after the
// other. Here a float has so many at most, and doubles take those.
class BiasSum {
public:
    void Create(const Convolution& c, size_t& bytes)
    {
        type_ = c.type;
        isLast_ = c.channelsLast != 0;
        samples_ = c.samples;
        plane_ = c.outHeight * c.outWidth;
        channels_ = c.outChannels;
        if (isLast_) {
            const int64_t rows = samples_ * plane_;
            blockRows_ = (rows + BLOCKS - 1) / BLOCKS;
            blocks_ = static_cast<int>((rows + blockRows_ - 1) / blockRows_);
            sums_ = bytes;
            blockBytes_ = Lines(static_cast<size_t>(channels_) * (sizeof(double) + 2 * sizeof(float)));
            bytes += static_cast<size_t>(blocks_) * blockBytes_;
        }
    }

    void Run(State& state, const char* dy, float* dbias) const
    {
        if (isLast_) {
            RunLast(state, dy, dbias);
            return;
        }
        const int64_t tasks = std::min<int64_t>(channels_, state.pool.ThreadNum());
        state.pool.ParallelFor(static_cast<int>(tasks), [&](int index, int count) {
            for (int64_t i = channels_ * index / count; i < channels_ * (index + 1) / count; ++i) {
                double total = 0;
                for (int64_t sample = 0; sample < samples_; ++sample) {
                    total += SumOf(dy + (sample * channels_ + i) * plane_ * SizeOf(type_));
                }
                dbias[i] = static_cast<float>(total);
            }
        });
    }

private:
    static constexpr int64_t BLOCKS = 64;
    static constexpr int64_t ROWS = 32;
    static constexpr int64_t LANES = 16;
    static constexpr int64_t PIECE = ROWS * LANES;

    // Returns so many elements as floats, in `buffer` if they are others.
    const float* Floats(const char* from, int64_t count, float* buffer) const
    {
        if (type_ == DataType::FLOAT32) {
            return reinterpret_cast<const float*>(from);
        }
        const auto length = static_cast<uint32_t>(count);
        Convert(reinterpret_cast<char*>(buffer), ElementType::FLOAT, length, from, ElementOf(type_), length, 1, length);
        return buffer;
    }

    double SumOf(const char* plane) const
    {
        double total = 0;
        for (int64_t begin = 0; begin < plane_; begin += PIECE) {
            float buffer[PIECE];
            const int64_t count = std::min(PIECE, plane_ - begin);
            const float* const values = Floats(plane + begin * SizeOf(type_), count, buffer);
            float lanes[LANES] = {};
            int64_t i = 0;
            for (; i + LANES <= count; i += LANES) {
                for (int64_t lane = 0; lane < LANES; ++lane) {
                    lanes[lane] += values[i + lane];
                }
            }
            for (; i < count; ++i) {
                lanes[i % LANES] += values[i];
            }
            for (const float lane : lanes) {
                total += lane;
            }
        }
        return total;
    }

    void RunLast(State& state, const char* dy, float* dbias) const
    {
        const int64_t rows = samples_ * plane_;
        const int64_t rowBytes = channels_ * SizeOf(type_);
        const auto sumsOf = [&](int block) {
            return reinterpret_cast<double*>(state.memory + sums_ + static_cast<size_t>(block) * blockBytes_);
        };
        state.pool.ParallelFor(blocks_, [&](int block, int) {
            double* const sums = sumsOf(block);
            auto* const few = reinterpret_cast<float*>(sums + channels_);
            std::fill_n(sums, channels_, 0.0);
            const int64_t end = std::min(rows, (block + 1) * blockRows_);
            for (int64_t begin = block * blockRows_; begin < end; begin += ROWS) {
                std::fill_n(few, channels_, 0.0f);
                for (int64_t row = begin; row < std::min(end, begin + ROWS); ++row) {
                    const float* const values = Floats(dy + row * rowBytes, channels_, few + channels_);
                    for (int64_t i = 0; i < channels_; ++i) {
                        few[i] += values[i];
                    }
                }
                for (int64_t i = 0; i < channels_; ++i) {
                    sums[i] += few[i];
                }
            }
        });
        for (int64_t i = 0; i < channels_; ++i) {
            double total = 0;
            for (int block = 0; block < blocks_; ++block) {
                total += sumsOf(block)[i];
            }
            dbias[i] = static_cast<float>(total);
        }
    }

    DataType type_ = DataType::FLOAT32;
    bool isLast_ = false;
    int64_t samples_ = 0;
    int64_t plane_ = 0;
    int64_t channels_ = 0;
    int64_t blockRows_ = 0;
    int blocks_ = 0;
    size_t sums_ = 0;  // in the state's memory, those of each block
    size_t blockBytes_ = 0;
};

// Makes the gradients of weight and bias. The library adds up all positions one after the other in float32, so it is
// asked for the sums of some of them at a time, which are added up in pairs.
class WeightPlan final : public Plan {
public:
    bool Create(const Convolution& c)
    {
        const std::vector<Part> parts = PartsOf(c);
        if (parts.empty()) {
            return false;
        }
        const Chosen chosen = FirstAhead(c, parts.front().convolution);
        if (chosen.desc == nullptr) {
            return false;
        }
        name = "oneDNN " + NameOf(chosen.desc);
        const Shape weight = WeightShape(c);
        const MemoryDesc wanted = WantedBy(chosen.desc, QUERY_WEIGHTS + QUERY_DIFF);
        elementBytes_ = chosen.type == F32 ? sizeof(float) : sizeof(uint16_t);
        x_.Create(ImageShape(c, c.channels, c.height, c.width).Size(), c.type, chosen.type, false, bytes);
        y_.Create(ImageShape(c, c.outChannels, c.outHeight, c.outWidth).Size(), c.type, chosen.type, false, bytes);
        weight_.Create(weight.Size(), c.type, F32, true, bytes);
        if (!order_.Create(AsItLies(weight, F32).get(), wanted, true, bytes)) {
            return false;
        }
        sumElements_ = static_cast<int64_t>(OneDnn::Functions().memoryDescSize(wanted) / sizeof(float));
        sums_ = bytes;
        sumBytes_ = Lines(static_cast<size_t>(sumElements_) * sizeof(float));
        bytes += sumBytes_ * parts.size();
        bias_.Create(c, bytes);
        const size_t shared = bytes;
        for (const Part& part : parts) {
            auto* kind = FindKind(part.convolution);
            if (kind == nullptr) {
                kinds_.push_back(std::make_unique<Kind>());
                kind = kinds_.back().get();
                size_t end = shared;
                if (!kind->Create(c, part.convolution, chosen, wanted, end)) {
                    return false;
                }
                bytes = std::max(bytes, end);
            }
            parts_.push_back({kind, part.x, part.y});
        }
        return true;
    }

    bool Run(const ConvolutionTensors& tensors, State& state) override
    {
        char* const x = x_.Begin(state, tensors.x);
        char* const y = y_.Begin(state, tensors.y);
        char* const weight = weight_.Begin(state, tensors.weight);
        if (!order_.Begin(state, weight)) {
            return false;
        }
        for (size_t i = 0; i < parts_.size(); ++i) {
            const auto& [kind, xOffset, yOffset] = parts_[i];
            char* const sum = state.memory + sums_ + i * sumBytes_;
            if (!kind->Run(state, x + xOffset * elementBytes_, y + yOffset * elementBytes_, sum)) {
                return false;
            }
        }
        bias_.Run(state, static_cast<const char*>(tensors.y), static_cast<float*>(tensors.bias));
        return AddUp(weight, state);
    }

private:
    // Some samples, or some rows of one sample, are a convolution of their own. The offsets count elements.
    struct Part {
        Convolution convolution;
        int64_t x;
        int64_t y;
    };

    // Parts of the same sizes share a primitive.
    struct Kind {
        Convolution convolution;
        Primitive primitive;
        Ordered x, y;
        Memory weight = nullptr;

        Kind() = default;
        Kind(const Kind&) = delete;
        ~Kind()
        {
            if (weight != nullptr) {
                OneDnn::Functions().memoryDestroy(weight);
            }
        }

        bool Create(const Convolution& whole, const Convolution& part, const Chosen& chosen, MemoryDesc wanted,
                    size_t& bytes)
        {
            const auto& f = OneDnn::Functions();
            convolution = part;
            const OwnedPrimitiveDesc desc = Describe(part, chosen.choice, chosen.type, wanted);
            if (desc == nullptr || !IsAhead(part, NameOf(desc)) || !primitive.Create(desc) ||
                f.memoryCreate(&weight, wanted, OneDnn::Engine(), nullptr) != 0) {
                return false;
            }
            const Shape wholeX = ImageShape(whole, whole.channels, whole.height, whole.width);
            const Shape wholeY = ImageShape(whole, whole.outChannels, whole.outHeight, whole.outWidth);
            const Shape partX = ImageShape(part, part.channels, part.height, part.width);
            const Shape partY = ImageShape(part, part.outChannels, part.outHeight, part.outWidth);
            return x.Create(AsPartOf(wholeX, partX, chosen.type).get(), WantedBy(desc, QUERY_SRC), false, bytes) &&
                   y.Create(AsPartOf(wholeY, partY, chosen.type).get(), WantedBy(desc, QUERY_DST + QUERY_DIFF), false,
                            bytes);
        }

        bool Run(State& state, char* xData, char* yData, char* sum) const
        {
            const auto& f = OneDnn::Functions();
            const ExecArgument arguments[] = {{ARGUMENT_SRC, x.Inner()},
                                              {ARGUMENT_WEIGHTS + ARGUMENT_DIFF, weight},
                                              {ARGUMENT_DST + ARGUMENT_DIFF, y.Inner()}};
            return f.memorySetHandle(weight, sum) == 0 && x.Begin(state, xData) && y.Begin(state, yData) &&
                   primitive.Run(state, arguments, 3);
        }
    };

    // Returns none where a part would see nothing but padding.
    static std::vector<Part> PartsOf(const Convolution& c)
    {
        const int64_t rows = std::max<int64_t>(1, MostPositions(c.type) / c.outWidth);
        const int64_t xSize = c.channels * c.height * c.width;
        const int64_t ySize = c.outChannels * c.outHeight * c.outWidth;
        std::vector<Part> parts;
        if (rows >= c.outHeight) {
            const int64_t most = std::max<int64_t>(1, rows / c.outHeight);
            for (int64_t sample = 0; sample < c.samples; sample += most) {
                Part part{c, sample * xSize, sample * ySize};
                part.convolution.samples = std::min(most, c.samples - sample);
                parts.push_back(part);
            }
            return parts;
        }
        const int64_t pieces = (c.outHeight + rows - 1) / rows;
        const int64_t xRow = c.width * (c.channelsLast != 0 ? c.channels : 1);
        const int64_t yRow = c.outWidth * (c.channelsLast != 0 ? c.outChannels : 1);
        for (int64_t sample = 0; sample < c.samples; ++sample) {
            for (int64_t piece = 0; piece < pieces; ++piece) {
                const int64_t begin = c.outHeight * piece / pieces;
                const int64_t end = c.outHeight * (piece + 1) / pieces;
                const int64_t first = begin * c.strideHeight - c.padTop;
                const int64_t last = (end - 1) * c.strideHeight - c.padTop + (c.kernelHeight - 1) * c.dilationHeight;
                const int64_t from = std::max<int64_t>(0, first);
                const int64_t to = std::min(c.height, last + 1);
                if (from >= to) {
                    return {};
                }
                Part part{c, sample * xSize + from * xRow, sample * ySize + begin * yRow};
                part.convolution.samples = 1;
                part.convolution.height = to - from;
                part.convolution.outHeight = end - begin;
                part.convolution.padTop = from - first;
                part.convolution.padBottom = last + 1 - to;
                parts.push_back(part);
            }
        }
        return parts;
    }

    Kind* FindKind(const Convolution& part) const
    {
        for (const auto& kind : kinds_) {
            if (std::memcmp(&kind->convolution, &part, sizeof(part)) == 0) {
                return kind.get();
            }
        }
        return nullptr;
    }

    // Adds them up into the first one, and brings that to the caller.
    bool AddUp(char* weight, State& state)
    {
        constexpr int64_t PIECE = 4096;
        const int64_t elements = static_cast<int64_t>(sumBytes_ / sizeof(float));
        const int64_t pieces = (elements + PIECE - 1) / PIECE;
        auto* const sums = reinterpret_cast<float*>(state.memory + sums_);
        state.pool.ParallelFor(
            static_cast<int>(std::min<int64_t>(pieces, state.pool.ThreadNum())), [&](int index, int count) {
                for (int64_t piece = pieces * index / count; piece < pieces * (index + 1) / count; ++piece) {
                    const int64_t end = std::min(elements, (piece + 1) * PIECE);
                    for (size_t step = 1; step < parts_.size(); step *= 2) {
                        for (size_t i = 0; i + step < parts_.size(); i += 2 * step) {
                            float* const to = sums + static_cast<int64_t>(i) * elements;
                            const float* const from = sums + static_cast<int64_t>(i + step) * elements;
                            for (int64_t j = piece * PIECE; j < end; ++j) {
                                to[j] += from[j];
                            }
                        }
                    }
                }
            });
        if (!order_.Moves()) {
            std::memcpy(weight, sums, static_cast<size_t>(sumElements_) * sizeof(float));
        } else if (OneDnn::Functions().memorySetHandle(order_.Inner(), sums) != 0 || !order_.End(state)) {
            return false;
        }
        weight_.End(state);
        return true;
    }

    struct PlacedPart {
        const Kind* kind;
        int64_t x;
        int64_t y;
    };

    Elements x_, y_, weight_;
    Ordered order_;  // of the weight
    BiasSum bias_;
    int64_t elementBytes_ = 0;
    int64_t sumElements_ = 0;
    size_t sums_ = 0;  // in the state's memory, those of each part
    size_t sumBytes_ = 0;
    std::vector<std::unique_ptr<Kind>> kinds_;
    std::vector<PlacedPart> parts_;
};

template <class PLAN>
std::unique_ptr<Plan> MakePlan(const Convolution& c, State& state)
{
    auto plan = std::make_unique<PLAN>();
    plan->shares = SharesOf(c);
    const TaskPool::Shares shares(state.pool, plan->shares);
    return plan->Create(c) ? std::move(plan) : nullptr;
}

struct Hash {
    size_t operator()(const Convolution& c) const
    {
        return std::hash<std::string_view>()({reinterpret_cast<const char*>(&c), sizeof(c)});
    }
};
struct Equal {
    bool operator()(const Convolution& a, const Convolution& b) const { return std::memcmp(&a, &b, sizeof(a)) == 0; }
};

// Each thread has its own, as primitives have memory of their own. Never freed: at the end of a process oneDNN may be
// gone before.
struct Plans : State {
    static constexpr size_t MOST = 512;                                         // beyond that the thread starts afresh
    std::unordered_map<Convolution, std::unique_ptr<Plan>, Hash, Equal> plans;  // null: the kernel answers
};

// The library takes no padding below 0 in front. Behind x padding may take away what the kernel sees nowhere.
bool HasPadding(const Convolution& c)
{
    return c.padTop >= 0 && c.padLeft >= 0 && c.padBottom > -c.strideHeight && c.padRight > -c.strideWidth;
}

// Null: the kernel answers.
Plan* FindPlan(const Convolution& c, Plans*& state)
{
    const OneDnn* const library = OneDnn::Get();
    // With the tiles of a chip the order of sums is a chip's.
    if (library == nullptr || OneDnn::Functions().streamCreateOnPool == nullptr ||
        TheExecutor().Platform().tileBytes == 0 || !HasPadding(c) || c.samples * c.outHeight * c.outWidth == 0) {
        return nullptr;
    }
    static thread_local Plans* const plans = new Plans;
    state = plans;
    auto found = plans->plans.find(c);
    if (found == plans->plans.end()) {
        if (plans->plans.size() >= Plans::MOST) {
            plans->plans.clear();
        }
        found = plans->plans
                    .emplace(c, c.result == ConvolutionResult::DWEIGHT ? MakePlan<WeightPlan>(c, *plans)
                                                                       : MakePlan<ImagePlan>(c, *plans))
                    .first;
    }
    return found->second.get();
}

}  // namespace
}  // namespace convolutions

bool Convolve(const Convolution& convolution, const ConvolutionTensors& tensors)
{
    convolutions::Plans* state = nullptr;
    auto* const plan = convolutions::FindPlan(convolution, state);
    if (plan == nullptr) {
        return false;
    }
    const TaskPool::Shares shares(state->pool, plan->shares);
    const DefaultArithmetic arithmetic;
    state->Memory(plan->bytes);
    return plan->Run(tensors, *state);
}

std::string ConvolutionImplementation(const Convolution& convolution)
{
    convolutions::Plans* state = nullptr;
    const auto* const plan = convolutions::FindPlan(convolution, state);
    return plan == nullptr ? "" : plan->name;
}

}  // namespace host
}  // namespace AscendC
