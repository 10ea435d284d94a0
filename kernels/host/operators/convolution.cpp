#include "operators/convolution.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <string_view>
#include <type_traits>
#include <unordered_map>
#include <vector>

#include "cube/onednn.h"
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

enum class Format : uint8_t { ANY, FIRST, BLOCKS };  // the library's choice; channels first; in blocks of channels

struct Choice {
    Format x;
    Format y;
};

constexpr int64_t FEW_CHANNELS = 4;  // a block of channels would be empty for the most part

// How tensors lie in memory for the library's kernel, which brings them there and back: what was the fastest of all
// formats, and another where the library has no kernel for that. One thread of a Zen 3 (AVX2), float32, NCHW,
// milliseconds with all that, and PyTorch 2.14:
//     2x64x56x56, 3x3: y 4.8 and 8.0, dx 5.0 and 8.6
//     2x128x28x28 -> 256, 3x3, stride 2: 2.8 and 3.3, 2.8 and 3.9
//     2x256x28x28, 1x1: BLOCKS 2.3 (ANY: 2.6) and 2.4, 2.4 and 3.2
//     2x256x28x28, 3x3, 32 groups: BLOCKS 1.5 and 1.8, 1.0 and 1.8
//     depthwise, 2x96x56x56, 7x7: BLOCKS 1.0 (ANY: 2.5) and 1.2, 1.3 and 3.9
//     depthwise, 3x3, stride 2: BLOCKS 0.21 and 0.36, 0.34 and 0.47
//     2x3x224x224 -> 64, 7x7, stride 2: y 5.4 (ANY: 7.5) and 16.2, dx 10.1 (ANY: 21) and 22.3
// Channels last, ANY takes them as they lie. The gradient of a weight stays with the kernel: oneDNN adds up all
// positions of all samples one after the other in float32, with several times the error (2x131x600: 1e-5 of the
// result).
std::vector<Choice> ChoicesOf(const Convolution& c)
{
    constexpr Choice any{Format::ANY, Format::ANY};
    constexpr Choice blocks{Format::BLOCKS, Format::BLOCKS};
    if (c.groups == 1 && c.channels <= FEW_CHANNELS) {
        return {{Format::FIRST, c.result == ConvolutionResult::DX ? Format::FIRST : Format::ANY}};
    }
    const bool depthwise = c.groups > 1 && c.groups == c.channels && c.groups == c.outChannels;
    if (c.channelsLast != 0) {
        return {depthwise && c.result == ConvolutionResult::Y ? blocks : any};
    }
    return c.groups > 1 || c.kernelHeight * c.kernelWidth == 1 ? std::vector{blocks, any} : std::vector{any};
}

// Groups by matrices are the kernel's, too, and "ref" is a plain loop: the library knows no better for this CPU.
bool IsAhead(const Convolution& c, std::string_view implementation)
{
    return implementation.substr(0, 3) != "ref" &&
           (c.groups == 1 || implementation.find("gemm") == std::string_view::npos);
}

// Threads that the library is told of: for each 4 million operations one, about a tenth of a millisecond.
int SharesOf(const Convolution& c)
{
    constexpr double OPERATIONS = 1 << 22;
    constexpr double MOST = 64;
    const double operations = 2.0 * static_cast<double>(c.samples * c.outChannels * c.outHeight * c.outWidth) *
                              static_cast<double>(c.channels / c.groups * c.kernelHeight * c.kernelWidth);
    return static_cast<int>(std::clamp(operations / OPERATIONS, 1.0, MOST));
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

OwnedDesc AsItLies(const Shape& shape, int type)
{
    Dims strides = {};
    int64_t stride = 1;
    for (int i = shape.ndims - 1; i >= 0; --i) {
        strides[shape.order[i]] = stride;
        stride *= shape.dims[shape.order[i]];
    }
    MemoryDesc desc = nullptr;
    OneDnn::Functions().memoryDescCreate(&desc, shape.ndims, shape.dims, type, strides);
    return OwnedDesc(desc);
}

constexpr int CHANNELS_FIRST[] = {0, 1, 2, 3};
constexpr int CHANNELS_LAST[] = {0, 2, 3, 1};

OwnedDesc InFormat(const Shape& shape, Format format, int type)
{
    if (format == Format::FIRST) {
        Shape plain = shape;
        std::copy_n(CHANNELS_FIRST, 4, plain.order);
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

ElementType ElementOf(DataType type)
{
    return type == DataType::FLOAT16 ? ElementType::HALF : ElementType::BFLOAT16;
}

// A tensor of the caller, and the same where a primitive wants it: as floats, and in the primitive's order.
class Operand {
public:
    Operand() = default;
    Operand(const Operand&) = delete;
    ~Operand()
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

    // `wanted`: the primitive's. Takes its memory behind `bytes`.
    bool Create(const Shape& shape, DataType type, int primitiveType, MemoryDesc wanted, bool isResult, size_t& bytes)
    {
        const auto& f = OneDnn::Functions();
        size_ = shape.Size();
        type_ = type;
        isResult_ = isResult;
        converts_ = primitiveType == F32 && type != DataType::FLOAT32;
        if (converts_) {
            floats_ = bytes;
            bytes += Lines(static_cast<size_t>(size_) * sizeof(float));
        }
        const OwnedDesc given = AsItLies(shape, primitiveType);
        if (f.memoryCreate(&inner_, wanted, OneDnn::Engine(), nullptr) != 0) {
            return false;
        }
        if (f.memoryDescEqual(given.get(), wanted) != 0) {
            return true;
        }
        moved_ = bytes;
        bytes += Lines(f.memoryDescSize(wanted));
        PrimitiveDesc desc = nullptr;
        if (f.memoryCreate(&given_, given.get(), OneDnn::Engine(), nullptr) != 0 ||
            f.reorderCreate(&desc, isResult ? wanted : given.get(), OneDnn::Engine(), isResult ? given.get() : wanted,
                            OneDnn::Engine(), nullptr) != 0) {
            return false;
        }
        const bool made = f.primitiveCreate(&reorder_, desc) == 0;
        f.primitiveDescDestroy(desc);
        return made;
    }

    // Before the primitive runs, and after it.
    bool Begin(State& state, void* data)
    {
        const auto& f = OneDnn::Functions();
        data_ = static_cast<char*>(data);
        plain_ = converts_ ? state.memory + floats_ : data_;
        if (converts_ && !isResult_) {
            ConvertAll(state);
        }
        if (f.memorySetHandle(inner_, reorder_ == nullptr ? plain_ : state.memory + moved_) != 0) {
            return false;
        }
        return reorder_ == nullptr ||
               (f.memorySetHandle(given_, plain_) == 0 && (isResult_ || Reorder(state, given_, inner_)));
    }
    bool End(State& state)
    {
        if (reorder_ != nullptr && isResult_ && !Reorder(state, inner_, given_)) {
            return false;
        }
        if (converts_ && isResult_) {
            ConvertAll(state);
        }
        return true;
    }
    Memory Inner() const { return inner_; }

private:
    bool Reorder(State& state, Memory from, Memory to) const
    {
        const ExecArgument arguments[] = {{ARGUMENT_SRC, from}, {ARGUMENT_DST, to}};
        return OneDnn::Functions().primitiveExecute(reorder_, state.stream, 2, arguments) == 0;
    }

    void ConvertAll(State& state) const
    {
        constexpr int64_t PIECE = 16384;
        const ElementType type = ElementOf(type_);
        state.pool.ParallelFor(static_cast<int>(std::min<int64_t>((size_ + PIECE - 1) / PIECE, state.pool.ThreadNum())),
                               [&](int index, int count) {
                                   const int64_t pieces = (size_ + PIECE - 1) / PIECE;
                                   const int64_t begin = pieces * index / count * PIECE;
                                   const auto length = static_cast<uint32_t>(
                                       std::min(size_, pieces * (index + 1) / count * PIECE) - begin);
                                   char* const floats = plain_ + begin * static_cast<int64_t>(sizeof(float));
                                   char* const halves = data_ + begin * SizeOf(type_);
                                   if (isResult_) {
                                       Convert(halves, type, length, floats, ElementType::FLOAT, length, 1, length);
                                   } else {
                                       Convert(floats, ElementType::FLOAT, length, halves, type, length, 1, length);
                                   }
                               });
    }

    int64_t size_ = 0;
    DataType type_ = DataType::FLOAT32;
    bool isResult_ = false;
    bool converts_ = false;
    size_t floats_ = 0;  // where they are in the state's memory
    size_t moved_ = 0;
    Memory given_ = nullptr;
    Memory inner_ = nullptr;
    PrimitiveHandle reorder_ = nullptr;
    char* data_ = nullptr;
    char* plain_ = nullptr;
};

class Plan {
public:
    Plan(const Convolution& convolution, State& state) : shares_(SharesOf(convolution)), result_(convolution.result)
    {
        const TaskPool::Shares shares(state.pool, shares_);
        const bool bfloat16 = convolution.type == DataType::BFLOAT16 && OneDnn::Get()->MultipliesBFloat16();
        for (const Choice& choice : ChoicesOf(convolution)) {
            if ((bfloat16 && Create(convolution, choice, BF16)) || Create(convolution, choice, F32)) {
                return;
            }
        }
    }
    Plan(const Plan&) = delete;
    ~Plan()
    {
        if (primitive_ != nullptr) {
            OneDnn::Functions().primitiveDestroy(primitive_);
        }
    }

    const std::string& Name() const { return name_; }

    bool Run(const ConvolutionTensors& tensors, State& state)
    {
        const TaskPool::Shares shares(state.pool, shares_);
        const DefaultArithmetic arithmetic;
        state.Memory(bytes_);
        const int x = result_ == ConvolutionResult::DX ? ARGUMENT_DIFF : 0;
        const int y = result_ == ConvolutionResult::Y ? 0 : ARGUMENT_DIFF;
        const ExecArgument arguments[] = {{ARGUMENT_SRC + x, x_.Inner()},
                                          {ARGUMENT_WEIGHTS, weight_.Inner()},
                                          {ARGUMENT_DST + y, y_.Inner()},
                                          {ARGUMENT_BIAS, bias_.Inner()}};
        const bool hasBias = bias_.Inner() != nullptr;
        return x_.Begin(state, tensors.x) && weight_.Begin(state, tensors.weight) && y_.Begin(state, tensors.y) &&
               (!hasBias || bias_.Begin(state, tensors.bias)) &&
               OneDnn::Functions().primitiveExecute(primitive_, state.stream, hasBias ? 4 : 3, arguments) == 0 &&
               x_.End(state) && y_.End(state);
    }

private:
    bool Create(const Convolution& c, const Choice& choice, int type)
    {
        const auto& f = OneDnn::Functions();
        PrimitiveDesc desc = Describe(c, choice, type);
        if (desc == nullptr) {
            return false;
        }
        const char* implementation = "";
        f.primitiveDescQuery(desc, QUERY_IMPLEMENTATION, 0, &implementation);
        const bool made =
            IsAhead(c, implementation) && f.primitiveCreate(&primitive_, desc) == 0 && CreateOperands(c, type, desc);
        if (made) {
            name_ = std::string("oneDNN ") + implementation;
        }
        f.primitiveDescDestroy(desc);
        return made;
    }

    bool CreateOperands(const Convolution& c, int type, PrimitiveDesc desc)
    {
        const auto wanted = [&](int query) { return OneDnn::Functions().primitiveDescQueryMemory(desc, query, 0); };
        const bool isY = result_ == ConvolutionResult::Y;
        const bool isX = result_ == ConvolutionResult::DX;
        const Shape bias{1, {c.outChannels}, {0}};
        const bool hasBias = isY && c.hasBias != 0;
        return x_.Create(ImageShape(c, c.channels, c.height, c.width), c.type, type,
                         wanted(QUERY_SRC + (isX ? QUERY_DIFF : 0)), isX, bytes_) &&
               weight_.Create(WeightShape(c), c.type, type, wanted(QUERY_WEIGHTS), false, bytes_) &&
               y_.Create(ImageShape(c, c.outChannels, c.outHeight, c.outWidth), c.type, type,
                         wanted(QUERY_DST + (isY ? 0 : QUERY_DIFF)), isY, bytes_) &&
               (!hasBias || bias_.Create(bias, c.biasType, F32, AsItLies(bias, F32).get(), false, bytes_));
    }

    PrimitiveDesc Describe(const Convolution& c, const Choice& choice, int type) const
    {
        const auto& f = OneDnn::Functions();
        const OwnedDesc x = InFormat(ImageShape(c, c.channels, c.height, c.width), choice.x, type);
        const OwnedDesc y = InFormat(ImageShape(c, c.outChannels, c.outHeight, c.outWidth), choice.y, type);
        const OwnedDesc weight = InFormat(WeightShape(c), Format::ANY, type);
        const OwnedDesc bias = AsItLies({1, {c.outChannels}, {0}}, F32);
        const Dims strides = {c.strideHeight, c.strideWidth};
        const Dims dilations = {c.dilationHeight - 1, c.dilationWidth - 1};
        const Dims before = {c.padTop, c.padLeft};
        const Dims behind = {c.padBottom, c.padRight};
        PrimitiveDesc desc = nullptr;
        if (result_ == ConvolutionResult::DX) {
            f.convolutionBackwardDataCreate(&desc, OneDnn::Engine(), CONVOLUTION_DIRECT, x.get(), weight.get(), y.get(),
                                            strides, dilations, before, behind, nullptr, nullptr);
        } else {
            const Attributes attributes = WithActivation(c.activation);
            f.convolutionCreate(&desc, OneDnn::Engine(), FORWARD_INFERENCE, CONVOLUTION_DIRECT, x.get(), weight.get(),
                                c.hasBias != 0 ? bias.get() : nullptr, y.get(), strides, dilations, before, behind,
                                attributes);
            if (attributes != nullptr) {
                f.attributesDestroy(attributes);
            }
        }
        return desc;
    }

    static Attributes WithActivation(ConvolutionActivation activation)
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

    const int shares_;
    const ConvolutionResult result_;
    std::string name_;  // empty: the kernel answers
    size_t bytes_ = 0;
    PrimitiveHandle primitive_ = nullptr;
    Operand x_, weight_, y_, bias_;
};

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
    static constexpr size_t MOST = 512;  // beyond that the thread starts afresh
    std::unordered_map<Convolution, Plan, Hash, Equal> plans;
};

// Null: the kernel answers.
Plan* FindPlan(const Convolution& c, Plans*& state)
{
    const OneDnn* const library = OneDnn::Get();
    const int64_t pads[] = {c.padTop, c.padBottom, c.padLeft, c.padRight};
    // With the tiles of a chip the order of sums is a chip's.
    if (library == nullptr || OneDnn::Functions().streamCreateOnPool == nullptr ||
        TheExecutor().Platform().tileBytes == 0 || *std::min_element(pads, pads + 4) < 0 ||
        c.samples * c.outHeight * c.outWidth == 0) {
        return nullptr;
    }
    static thread_local Plans* const plans = new Plans;
    state = plans;
    auto found = plans->plans.find(c);
    if (found == plans->plans.end()) {
        if (plans->plans.size() >= Plans::MOST) {
            plans->plans.clear();
        }
        found = plans->plans.try_emplace(c, c, *plans).first;
    }
    return found->second.Name().empty() ? nullptr : &found->second;
}

}  // namespace
}  // namespace convolutions

bool Convolve(const Convolution& convolution, const ConvolutionTensors& tensors)
{
    convolutions::Plans* state = nullptr;
    auto* const plan = convolutions::FindPlan(convolution, state);
    return plan != nullptr && plan->Run(tensors, *state);
}

std::string ConvolutionImplementation(const Convolution& convolution)
{
    convolutions::Plans* state = nullptr;
    const auto* const plan = convolutions::FindPlan(convolution, state);
    return plan == nullptr ? "" : plan->Name();
}

}  // namespace host
}  // namespace AscendC
