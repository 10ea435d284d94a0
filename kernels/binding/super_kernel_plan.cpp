#include <algorithm>
#include <array>
#include <cstring>
#include <new>
#include <numeric>
#include <stdexcept>

#include "binding/cast.h"
#include "binding/super_kernel.h"
#include "host/kernel_operator.h"
#include "host/runtime/launch.h"

namespace ms_ascend_ops::binding {
namespace {

constexpr uint64_t ALIGNMENT = 512;           // cores write to lines of their own
constexpr uint64_t BYTES_A_CORE = 64 * 1024;  // a copy gives a core at least so many

Shape ShapeOf(const TensorDesc& desc)
{
    return {desc.dims, desc.dims + desc.rank};
}

TensorDesc Describe(const Shape& shape, const std::string& dtype)
{
    if (shape.size() > MAX_RANK) {
        throw std::invalid_argument("a tensor has " + std::to_string(shape.size()) + " dims");
    }
    SuperKernel::CheckedSize(shape);
    TensorDesc desc;
    desc.dtype = ParseDataType(dtype);
    desc.rank = static_cast<int32_t>(shape.size());
    std::copy(shape.begin(), shape.end(), desc.dims);
    return desc;
}

uint64_t BytesOf(const TensorDesc& desc)
{
    return static_cast<uint64_t>(desc.Size()) * SizeOf(desc.dtype);
}

// Lends memory for intermediate results. Super kernels that run at once have one each; a later one gets one that is
// there.
class ArenaLease {
public:
    explicit ArenaLease(uint64_t bytes)
    {
        {
            const std::lock_guard<std::mutex> lock(Idle().mutex);
            if (!Idle().arenas.empty()) {
                arena_ = std::move(Idle().arenas.back());
                Idle().arenas.pop_back();
            }
        }
        if (arena_.bytes < bytes) {
            arena_ = {};
            arena_.memory.reset(static_cast<char*>(::operator new[](bytes, std::align_val_t(ALIGNMENT))));
            arena_.bytes = bytes;
        }
    }
    ~ArenaLease()
    {
        const std::lock_guard<std::mutex> lock(Idle().mutex);
        Idle().arenas.push_back(std::move(arena_));
    }
    ArenaLease(const ArenaLease&) = delete;
    ArenaLease& operator=(const ArenaLease&) = delete;
    char* Data() const { return arena_.memory.get(); }

private:
    struct Free {
        void operator()(char* memory) const { ::operator delete[](memory, std::align_val_t(ALIGNMENT)); }
    };
    struct Arena {
        uint64_t bytes = 0;
        std::unique_ptr<char[], Free> memory;
    };
    struct IdleArenas {
        std::mutex mutex;
        std::vector<Arena> arenas;
    };
    static IdleArenas& Idle()
    {
        static auto* idle = new IdleArenas;  // threads may end after static objects
        return *idle;
    }

    Arena arena_;
};

// Copies the elements of result [begin, end): runs of the innermost axis one by one.
void CopyRows(const char* source, char* target, const std::vector<int64_t>& sizes, const std::vector<int64_t>& strides,
              uint32_t itemBytes, int64_t begin, int64_t end)
{
    const size_t rank = sizes.size();
    const int64_t row = sizes[rank - 1];
    const int64_t step = strides[rank - 1];
    std::array<int64_t, MAX_RANK> index{};
    int64_t quotient = begin;
    for (size_t axis = rank - 1; axis-- > 0;) {
        index[axis] = quotient % sizes[axis];
        quotient /= sizes[axis];
    }
    for (int64_t i = begin; i < end; ++i) {
        int64_t from = 0;
        for (size_t axis = 0; axis + 1 < rank; ++axis) {
            from += index[axis] * strides[axis];
        }
        char* to = target + i * row * itemBytes;
        if (step == 1) {
            std::memcpy(to, source + from * itemBytes, row * itemBytes);
        } else {
            for (int64_t j = 0; j < row; ++j, to += itemBytes) {
                std::memcpy(to, source + (from + j * step) * itemBytes, itemBytes);
            }
        }
        for (size_t axis = rank - 1; axis-- > 0 && ++index[axis] == sizes[axis];) {
            index[axis] = 0;
        }
    }
}

// Calls a function of parts of `count` things that have so many bytes, on as many cores as that is worth.
template <typename F>
void OnCores(int64_t count, uint64_t bytes, const F& run)
{
    const auto cores =
        static_cast<int64_t>(std::min<uint64_t>(AscendC::host::TheExecutor().ThreadNum(), bytes / BYTES_A_CORE));
    if (cores < 2) {
        run(0, count);
        return;
    }
    LaunchConfig config;
    config.blockDim = static_cast<uint32_t>(cores);
    AscendC::host::Launch(config, {}, {}, [&](GM_ADDR) {
        const int64_t core = AscendC::GetBlockIdx();
        run(count * core / cores, count * (core + 1) / cores);
    });
}

}  // namespace

std::shared_ptr<const SuperKernelPlan> SuperKernelPlans::Find(const std::vector<TensorDesc>& inputs)
{
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        const auto found =
            std::find_if(plans_.begin(), plans_.end(), [&](const auto& plan) { return plan->Fits(inputs); });
        if (found != plans_.end()) {
            return *found;
        }
    }
    auto plan = std::make_shared<const SuperKernelPlan>(kernel_, inputs);
    const std::lock_guard<std::mutex> lock(mutex_);
    plans_.push_front(plan);
    plans_.resize(std::min(plans_.size(), SuperKernel::MOST_REMEMBERED));
    return plan;
}

SuperKernelPlan::SuperKernelPlan(std::shared_ptr<const SuperKernel> kernel, const std::vector<TensorDesc>& inputs)
    : kernel_(std::move(kernel)), inputs_(inputs)
{
    std::vector<Shape> given;
    std::vector<std::string> dtypes;
    for (const TensorDesc& input : inputs) {
        given.push_back(ShapeOf(input));
        dtypes.emplace_back(NameOf(input.dtype));
    }
    const std::vector<std::string> types = kernel_->AllTypes(dtypes);
    const std::vector<Shape> shapes = kernel_->AllShapes(given);
    std::vector<TensorDesc> descs;
    for (size_t value = 0; value < shapes.size(); ++value) {
        if (!SuperKernel::IsKnown(shapes[value])) {
            throw std::invalid_argument(SuperKernel::NAME + "every shape must be known");
        }
        descs.push_back(Describe(shapes[value], types[value]));
    }
    std::transform(kernel_->results_.begin(), kernel_->results_.end(), std::back_inserter(results_),
                   [&](size_t value) { return descs[value]; });
    MakePlaces(descs);
    MakeLaunches(descs);
}

void SuperKernelPlan::MakePlaces(const std::vector<TensorDesc>& descs)
{
    const size_t inputs = kernel_->inputCount_;
    const std::vector<SuperKernel::Step>& steps = kernel_->steps_;
    // Views have the memory of another value, their root.
    std::vector<size_t> roots(descs.size());
    std::iota(roots.begin(), roots.end(), 0);
    std::vector<uint64_t> offsets(descs.size());
    std::vector<size_t> last(descs.size());  // step that reads it
    for (size_t i = 0; i < steps.size(); ++i) {
        const SuperKernel::Step& step = steps[i];
        for (const size_t value : step.inputs) {
            if (value != SuperKernel::NONE) {
                last[roots[value]] = i;
            }
        }
        for (size_t output = 0; output < step.outputCount; ++output) {
            last[step.firstOutput + output] = i;
        }
        if (step.kind == SuperKernel::Kind::VIEW || step.kind == SuperKernel::Kind::LAST_ROW) {
            const size_t source = step.inputs[0];
            roots[step.firstOutput] = roots[source];
            offsets[step.firstOutput] = offsets[source];
            if (step.kind == SuperKernel::Kind::LAST_ROW) {
                offsets[step.firstOutput] += BytesOf(descs[source]) - BytesOf(descs[step.firstOutput]);
            }
        }
    }
    places_.resize(descs.size());
    for (size_t i = 0; i < inputs; ++i) {
        places_[i].base = i;
    }
    for (size_t i = 0; i < kernel_->results_.size(); ++i) {
        const size_t value = kernel_->results_[i];
        Place& place = places_[roots[value]];
        if (place.base == ARENA && BytesOf(descs[value]) == BytesOf(descs[roots[value]])) {
            place.base = inputs + i;
        } else {
            last[roots[value]] = steps.size();
            doubles_.push_back({inputs + i, value, BytesOf(descs[value])});
        }
    }
    // In the order in which values come to life: the first gap that is large enough.
    struct Alive {
        uint64_t begin, end;
        size_t last;
    };
    std::vector<Alive> alive;  // by `begin`
    for (size_t i = 0; i < steps.size(); ++i) {
        alive.erase(std::remove_if(alive.begin(), alive.end(), [i](const Alive& one) { return one.last < i; }),
                    alive.end());
        const SuperKernel::Step& step = steps[i];
        for (size_t output = 0; output < step.outputCount; ++output) {
            const size_t value = step.firstOutput + output;
            if (places_[value].base != ARENA || roots[value] != value) {
                continue;
            }
            const uint64_t bytes =
                std::max<uint64_t>(1, (BytesOf(descs[value]) + ALIGNMENT - 1) / ALIGNMENT) * ALIGNMENT;
            uint64_t begin = 0;
            auto behind = alive.begin();
            for (; behind != alive.end() && behind->begin < begin + bytes; ++behind) {
                begin = std::max(begin, behind->end);
            }
            alive.insert(behind, {begin, begin + bytes, last[value]});
            places_[value].offset = begin;
            arenaBytes_ = std::max(arenaBytes_, begin + bytes);
        }
    }
    for (size_t value = 0; value < descs.size(); ++value) {
        places_[value] = places_[roots[value]];
        places_[value].offset += offsets[value];
    }
}

SuperKernelPlan::Copy SuperKernelPlan::CopyOf(const SuperKernel::Step& step, const TensorDesc& source,
                                              const TensorDesc& result)
{
    std::array<int64_t, MAX_RANK> strides{};
    int64_t stride = 1;
    for (int32_t axis = source.rank; axis-- > 0; stride *= source.dims[axis]) {
        strides[axis] = stride;
    }
    Copy copy;
    copy.itemBytes = SizeOf(source.dtype);
    for (int32_t axis = 0; axis < result.rank; ++axis) {  // axes that stay neighbours are one
        const auto from = static_cast<size_t>(step.dims[axis].number);
        const int64_t size = result.dims[axis];
        if (size == 1) {
            continue;
        }
        if (!copy.sizes.empty() && copy.strides.back() == size * strides[from]) {
            copy.sizes.back() *= size;
            copy.strides.back() = strides[from];
        } else {
            copy.sizes.push_back(size);
            copy.strides.push_back(strides[from]);
        }
    }
    if (copy.sizes.empty()) {
        copy.sizes = copy.strides = {1};
    }
    return copy;
}

void SuperKernelPlan::MakeLaunches(const std::vector<TensorDesc>& descs)
{
    using Kind = SuperKernel::Kind;
    for (size_t i = 0; i < kernel_->steps_.size(); ++i) {
        const SuperKernel::Step& step = kernel_->steps_[i];
        if (step.kind == Kind::VIEW || step.kind == Kind::LAST_ROW) {
            continue;
        }
        Launch launch{i, nullptr, {}, {}, {}};
        std::vector<TensorDesc> tensors;
        const auto add = [&](size_t value) {
            TensorDesc absent;
            absent.rank = -1;
            tensors.push_back(value == SuperKernel::NONE ? absent : descs[value]);
            launch.places.push_back(value == SuperKernel::NONE ? Place{ABSENT_INPUT} : places_[value]);
        };
        std::for_each(step.inputs.begin(), step.inputs.end(), add);
        for (size_t output = 0; output < step.outputCount; ++output) {
            add(step.firstOutput + output);
        }
        if (step.kind == Kind::KERNEL) {
            launch.kernel = std::make_unique<PreparedLaunch>(*step.op, std::move(tensors), step.attributes);
        } else if (step.kind == Kind::CAST) {
            launch.cast = Cast{tensors[0].dtype, tensors[1].dtype, static_cast<int64_t>(tensors[1].Size())};
        } else {
            launch.copy = CopyOf(step, tensors[0], tensors[1]);
        }
        launches_.push_back(std::move(launch));
    }
}

bool SuperKernelPlan::Fits(const std::vector<TensorDesc>& inputs) const
{
    return std::equal(
        inputs_.begin(), inputs_.end(), inputs.begin(), inputs.end(), [](const TensorDesc& a, const TensorDesc& b) {
            return a.dtype == b.dtype && a.rank == b.rank && std::equal(a.dims, a.dims + std::max(a.rank, 0), b.dims);
        });
}

void SuperKernelPlan::CheckResults(const TensorDesc* given) const
{
    for (size_t i = 0; i < results_.size(); ++i) {
        const TensorDesc& result = results_[i];
        if (given[i].dtype != result.dtype || ShapeOf(given[i]) != ShapeOf(result)) {
            throw std::invalid_argument(SuperKernel::NAME + "result " + std::to_string(i) + " must be " +
                                        NameOf(result.dtype) + " of the shape " + ToString(ShapeOf(result)) + ", got " +
                                        NameOf(given[i].dtype) + " " + ToString(ShapeOf(given[i])));
        }
    }
}

void SuperKernelPlan::RunCopy(const Copy& copy, const void* source, void* target)
{
    int64_t rows = 1;
    std::for_each(copy.sizes.begin(), copy.sizes.end() - 1, [&](int64_t size) { rows *= size; });
    const uint64_t bytes = static_cast<uint64_t>(rows) * copy.sizes.back() * copy.itemBytes;
    if (bytes == 0) {
        return;
    }
    OnCores(rows, bytes, [&](int64_t begin, int64_t end) {
        CopyRows(static_cast<const char*>(source), static_cast<char*>(target), copy.sizes, copy.strides, copy.itemBytes,
                 begin, end);
    });
}

void SuperKernelPlan::RunCast(const Cast& cast, const void* source, void* target)
{
    const uint32_t fromBytes = SizeOf(cast.from);
    const uint32_t toBytes = SizeOf(cast.to);
    OnCores(cast.count, static_cast<uint64_t>(cast.count) * toBytes, [&](int64_t begin, int64_t end) {
        CastFloats(static_cast<const char*>(source) + begin * fromBytes, cast.from,
                   static_cast<char*>(target) + begin * toBytes, cast.to, end - begin);
    });
}

void SuperKernelPlan::Run(void* const* params) const
{
    const ArenaLease arena(arenaBytes_);
    const auto address = [&](const Place& place) -> void* {
        if (place.base == ABSENT_INPUT) {
            return nullptr;
        }
        return (place.base == ARENA ? arena.Data() : static_cast<char*>(params[place.base])) + place.offset;
    };
    for (const Launch& launch : launches_) {
        std::array<void*, MAX_TENSORS> tensors{};
        std::transform(launch.places.begin(), launch.places.end(), tensors.begin(), address);
        try {
            if (launch.kernel != nullptr) {
                launch.kernel->Run(tensors.data());
                continue;
            }
        } catch (const std::invalid_argument& error) {
            throw std::invalid_argument(kernel_->Place(launch.step) + error.what());
        } catch (const std::runtime_error& error) {
            throw std::runtime_error(kernel_->Place(launch.step) + error.what());
        }
        if (launch.cast) {
            RunCast(*launch.cast, tensors[0], tensors[1]);
        } else {
            RunCopy(launch.copy, tensors[0], tensors[1]);
        }
    }
    for (const Double& copied : doubles_) {
        if (copied.bytes > 0) {
            std::memcpy(params[copied.param], address(places_[copied.value]), copied.bytes);
        }
    }
}

}  // namespace ms_ascend_ops::binding
