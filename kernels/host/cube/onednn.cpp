#include "cube/onednn.h"

#include <dlfcn.h>

#include <cstdio>
#include <cstring>
#include <functional>
#include <string>
#include <unordered_map>

#include "cube/onednn_library.h"
#include "cube/product.h"

namespace AscendC {
namespace host {
namespace {

using namespace onednn;

Functions g_functions;
Engine g_engine = nullptr;
std::string g_version;
std::string g_path;

// These are bits of dnnl_cpu_isa_t, for the instruction sets that the library uses: ONEDNN_MAX_CPU_ISA may allow fewer
// than the CPU has.
constexpr int ISA_AVX2 = 0x4;
constexpr int ISA_AVX512 = 0x20;
constexpr int ISA_AVX512_VNNI = 0x40;

// ---- primitives: kernels for given sizes, strides and types. Each thread has its own.

struct Key {
    uint32_t m, n, k;
    uint32_t flags;  // transposed a, transposed b, bfloat16 in, bfloat16 out, bias
    int64_t strides[3];

    bool operator==(const Key& other) const { return std::memcmp(this, &other, sizeof(Key)) == 0; }
};
static_assert(sizeof(Key) == 4 * sizeof(uint32_t) + 3 * sizeof(int64_t), "compared as bytes");

struct KeyHash {
    size_t operator()(const Key& key) const
    {
        return std::hash<std::string_view>()({reinterpret_cast<const char*>(&key), sizeof(key)});
    }
};

struct MatmulPrimitive {
    PrimitiveHandle primitive = nullptr;  // null: oneDNN has none for this
    Memory a = nullptr;
    Memory b = nullptr;
    Memory c = nullptr;
    Memory bias = nullptr;
};

// A key is remembered for good: sizes of tiles are few. Beyond this many the thread starts afresh.
constexpr size_t MAX_PRIMITIVES = 512;

struct ThreadState {
    ExecutionStream stream = nullptr;
    std::unordered_map<Key, MatmulPrimitive, KeyHash> primitives;
};

// Never freed: at the end of a process oneDNN may be gone before its thread's destructors run.
ThreadState& State()
{
    static thread_local ThreadState* state = new ThreadState;
    return *state;
}

void Destroy(MatmulPrimitive& entry)
{
    for (const Memory memory : {entry.a, entry.b, entry.c, entry.bias}) {
        if (memory != nullptr) {
            g_functions.memoryDestroy(memory);
        }
    }
    if (entry.primitive != nullptr) {
        g_functions.primitiveDestroy(entry.primitive);
    }
    entry = MatmulPrimitive{};
}

// Owns a description for the time of a block.
class ScopedDesc {
public:
    ScopedDesc(const Matrix& matrix, uint32_t rows, uint32_t cols, int type)
    {
        const Dims dims = {rows, cols};
        const Dims strides = {matrix.transposed ? 1 : matrix.stride, matrix.transposed ? matrix.stride : 1};
        if (g_functions.memoryDescCreate(&desc_, 2, dims, type, strides) != 0) {
            desc_ = nullptr;
        }
    }
    ~ScopedDesc()
    {
        if (desc_ != nullptr) {
            g_functions.memoryDescDestroy(desc_);
        }
    }
    ScopedDesc(const ScopedDesc&) = delete;
    ScopedDesc& operator=(const ScopedDesc&) = delete;
    MemoryDesc Get() const { return desc_; }
    bool CreateMemory(Memory& memory) const
    {
        return desc_ != nullptr && g_functions.memoryCreate(&memory, desc_, g_engine, nullptr) == 0;
    }

private:
    MemoryDesc desc_ = nullptr;
};

MatmulPrimitive CreatePrimitive(const Product& product)
{
    const int type = product.type == ElementType::BFLOAT16 ? BF16 : F32;
    const int resultType = product.resultType == ElementType::BFLOAT16 ? BF16 : F32;
    const ScopedDesc a(product.a, product.m, product.k, type);
    const ScopedDesc b(product.b, product.k, product.n, type);
    const ScopedDesc c(product.c, product.m, product.n, resultType);
    const ScopedDesc bias({nullptr, product.n, false}, 1, product.n, F32);
    const bool hasBias = product.bias != nullptr;
    MatmulPrimitive entry;
    PrimitiveDesc desc = nullptr;
    if (g_functions.matmulCreate(&desc, g_engine, a.Get(), b.Get(), hasBias ? bias.Get() : nullptr, c.Get(), nullptr) !=
        0) {
        return entry;
    }
    const bool made = g_functions.primitiveCreate(&entry.primitive, desc) == 0 && a.CreateMemory(entry.a) &&
                      b.CreateMemory(entry.b) && c.CreateMemory(entry.c) && (!hasBias || bias.CreateMemory(entry.bias));
    g_functions.primitiveDescDestroy(desc);
    if (!made) {
        Destroy(entry);
    }
    return entry;
}

}  // namespace

class OneDnnLoader {
public:
    static const OneDnn* Load()
    {
        static OneDnn found;
        if (!FindFunctions(g_functions, g_path)) {
            return nullptr;
        }
        const onednn::Version* version = g_functions.version();
        char text[64];
        std::snprintf(text, sizeof(text), "%d.%d.%d", version->major, version->minor, version->patch);
        if (version->major != 2 && version->major != 3) {
            g_path = std::string("oneDNN ") + text + " has another API than versions 2 and 3";
            return nullptr;
        }
        if (version->major == 3 && g_functions.engineCreate(&g_engine, ENGINE_CPU, 0) != 0) {
            g_path = "oneDNN makes no engine for this CPU";
            return nullptr;
        }
        g_version = text;
        Dl_info info;
        g_path = dladdr(reinterpret_cast<const void*>(g_functions.sgemm), &info) != 0 ? info.dli_fname : "libdnnl.so";
        const int isa = g_functions.effectiveCpuIsa();
        found.multipliesBFloat16_ = (isa & ISA_AVX512) != 0;  // before that, element by element
        found.multipliesIntegers_ = (isa & ISA_AVX512_VNNI) != 0;
        found.readsInPlace_ = (isa & (ISA_AVX2 | ISA_AVX512)) == ISA_AVX2;
        found.packsRows_ = (isa & ISA_AVX512) != 0;
        return &found;
    }
};

const OneDnn* OneDnn::Get()
{
    static const OneDnn* const library = OneDnnLoader::Load();
    return library;
}

const onednn::Functions& OneDnn::Functions()
{
    return g_functions;
}

EngineHandle* OneDnn::Engine()
{
    return g_engine;
}

const char* OneDnn::Version()
{
    Get();
    return g_version.c_str();
}

const char* OneDnn::Path()
{
    Get();
    return g_path.c_str();
}

// Below so many rows the functions for matrices that are used once read the larger one faster than primitives do
// (1 x 4096 x 4096 in bfloat16 on a Zen 4: 30 and 10 GFLOP/s).
constexpr uint32_t LEAST_ROWS = 16;
// With AVX-512 they also read parts of rows of floats faster. 128 rows on a Zen 5, primitives and functions, in
// GFLOP/s: 128 columns of a b of 4096x4096 129 and 199, all of them 200 and 212; 256 columns of 1024x1024 231 and 235.

bool OneDnn::Multiply(const Product& product) const
{
    const bool simple = product.resultType == ElementType::FLOAT && product.bias == nullptr;
    const bool partsOfRows =
        product.type == ElementType::FLOAT && !product.b.transposed && product.b.stride > product.n;
    if (product.accumulate || (simple && (product.m < LEAST_ROWS || (partsOfRows && packsRows_)))) {
        return simple && Gemm(product);
    }
    return Primitive(product) || (simple && Gemm(product));
}

bool OneDnn::Gemm(const Product& product) const
{
    const auto letter = [](const Matrix& matrix) { return matrix.transposed ? 'T' : 'N'; };
    const float beta = product.accumulate ? 1.0f : 0.0f;
    auto* const c = reinterpret_cast<float*>(product.c.data);
    if (product.type == ElementType::BFLOAT16) {
        return g_functions.bf16Gemm(letter(product.a), letter(product.b), product.m, product.n, product.k, 1.0f,
                                    reinterpret_cast<const uint16_t*>(product.a.data), product.a.stride,
                                    reinterpret_cast<const uint16_t*>(product.b.data), product.b.stride, beta, c,
                                    product.c.stride) == 0;
    }
    return g_functions.sgemm(letter(product.a), letter(product.b), product.m, product.n, product.k, 1.0f,
                             reinterpret_cast<const float*>(product.a.data), product.a.stride,
                             reinterpret_cast<const float*>(product.b.data), product.b.stride, beta, c,
                             product.c.stride) == 0;
}

bool OneDnn::MultiplyIntegers(const Product& product) const
{
    const auto letter = [](const Matrix& matrix) { return matrix.transposed ? 'T' : 'N'; };
    const int32_t offset = 0;
    return g_functions.integerGemm(letter(product.a), letter(product.b), 'F', product.m, product.n, product.k, 1.0f,
                                   reinterpret_cast<const int8_t*>(product.a.data), product.a.stride, 0,
                                   reinterpret_cast<const int8_t*>(product.b.data), product.b.stride, 0,
                                   product.accumulate ? 1.0f : 0.0f, reinterpret_cast<int32_t*>(product.c.data),
                                   product.c.stride, &offset) == 0;
}

bool OneDnn::Primitive(const Product& product) const
{
    if (g_engine == nullptr) {
        return false;
    }
    ThreadState& state = State();
    if (state.stream == nullptr && g_functions.streamCreate(&state.stream, g_engine, STREAM_DEFAULT) != 0) {
        return false;
    }
    const uint32_t flags = (product.a.transposed ? 1u : 0u) | (product.b.transposed ? 2u : 0u) |
                           (product.type == ElementType::BFLOAT16 ? 4u : 0u) |
                           (product.resultType == ElementType::BFLOAT16 ? 8u : 0u) |
                           (product.bias != nullptr ? 16u : 0u);
    const Key key{product.m, product.n, product.k, flags, {product.a.stride, product.b.stride, product.c.stride}};
    auto found = state.primitives.find(key);
    if (found == state.primitives.end()) {
        if (state.primitives.size() >= MAX_PRIMITIVES) {
            for (auto& [unused, entry] : state.primitives) {
                Destroy(entry);
            }
            state.primitives.clear();
        }
        found = state.primitives.emplace(key, CreatePrimitive(product)).first;
    }
    const MatmulPrimitive& entry = found->second;
    if (entry.primitive == nullptr) {
        return false;
    }
    ExecArgument arguments[4] = {
        {ARGUMENT_SRC, entry.a}, {ARGUMENT_WEIGHTS, entry.b}, {ARGUMENT_DST, entry.c}, {ARGUMENT_BIAS, entry.bias}};
    bool good = g_functions.memorySetHandle(entry.a, product.a.data) == 0 &&
                g_functions.memorySetHandle(entry.b, product.b.data) == 0 &&
                g_functions.memorySetHandle(entry.c, product.c.data) == 0;
    if (product.bias != nullptr) {
        good = good && g_functions.memorySetHandle(entry.bias, const_cast<float*>(product.bias)) == 0;
    }
    return good &&
           g_functions.primitiveExecute(entry.primitive, state.stream, product.bias != nullptr ? 4 : 3, arguments) == 0;
}

}  // namespace host
}  // namespace AscendC
