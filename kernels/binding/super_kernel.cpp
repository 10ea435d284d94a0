#include "binding/super_kernel.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <locale>
#include <mutex>
#include <new>
#include <numeric>
#include <sstream>
#include <stdexcept>
#include <unordered_map>

#include "host/kernel_operator.h"
#include "host/runtime/launch.h"

namespace ms_ascend_ops::binding {
namespace {

constexpr int64_t FORMAT = 1;
constexpr uint64_t ALIGNMENT = 512;           // cores write to lines of their own
constexpr int64_t MOST_BYTES = 1LL << 46;     // of a tensor: no machine has more, and sums of them do not overflow
constexpr uint64_t BYTES_A_CORE = 64 * 1024;  // that a copy gives to a core at least
constexpr size_t MOST_REMEMBERED = 8;         // combinations of shapes
const std::string NAME = "super_kernel: ";

// Steps that are no kernels, as SuperKernel::Kind has them.
constexpr std::array<const char*, 3> VIEWS = {"view", "last_row", "transpose"};

std::vector<std::string> Split(const std::string& line)
{
    std::istringstream stream(line);
    std::vector<std::string> words;
    for (std::string word; stream >> word;) {
        words.push_back(word);
    }
    return words;
}

int64_t ParseInt(const std::string& text)
{
    int64_t value = 0;
    const char* const end = text.data() + text.size();
    const auto [last, error] = std::from_chars(text.data(), end, value);
    if (error != std::errc() || last != end) {
        throw std::invalid_argument("'" + text + "' is no number");
    }
    return value;
}

double ParseFloat(const std::string& text)
{
    std::istringstream stream(text);
    stream.imbue(std::locale::classic());
    double value = 0.0;
    if (!(stream >> value) || stream.peek() != std::istringstream::traits_type::eof()) {
        throw std::invalid_argument("'" + text + "' is no number");
    }
    return value;
}

size_t ParseCount(const std::string& text, size_t most)
{
    const int64_t value = ParseInt(text);
    if (value < 0 || static_cast<uint64_t>(value) >= most) {
        throw std::invalid_argument(text + " is not below " + std::to_string(most));
    }
    return static_cast<size_t>(value);
}

AttributeValue ParseAttribute(const Op& op, const AttributeDef& def, const std::string& text)
{
    AttributeValue value;
    switch (def.kind) {
        case AttributeKind::INT:
            value.integer = ParseInt(text);
            break;
        case AttributeKind::FLOAT:
            value.real = ParseFloat(text);
            break;
        case AttributeKind::BOOL:
            value.integer = ParseInt(text);
            if (value.integer != 0 && value.integer != 1) {
                throw std::invalid_argument(def.name + " must be 0 or 1, got " + text);
            }
            break;
        case AttributeKind::STRING:
            value = op.ParseChoice(def, text);
            break;
    }
    op.CheckAttribute(def, value);
    return value;
}

bool IsKnown(const Shape& shape)
{
    return std::all_of(shape.begin(), shape.end(), [](int64_t size) { return size >= 0; });
}

// The product, which has to be a number of elements that memory can hold.
int64_t CheckedSize(const Shape& shape)
{
    int64_t size = 1;
    for (const int64_t dim : shape) {
        if (__builtin_mul_overflow(size, dim, &size) || size > MOST_BYTES / 8) {
            throw std::invalid_argument("a tensor of the shape " + ToString(shape) + " is too large");
        }
    }
    return size;
}

Shape ShapeOf(const TensorDesc& desc)
{
    return {desc.dims, desc.dims + desc.rank};
}

TensorDesc Describe(const Shape& shape, const std::string& dtype)
{
    if (shape.size() > MAX_RANK) {
        throw std::invalid_argument("a tensor has " + std::to_string(shape.size()) + " dims");
    }
    CheckedSize(shape);
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

// Memory for intermediate results. Super kernels that run at once have one each; who comes later gets one that is
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

// The elements of result [begin, end): runs of the innermost axis one by one.
void CopyRows(const char* source, char* target, const std::vector<int64_t>& sizes, const std::vector<int64_t>& strides,
              uint32_t itemBytes, int64_t begin, int64_t end)
{
    const size_t rank = sizes.size();
    const int64_t row = sizes[rank - 1];
    const int64_t step = strides[rank - 1];
    std::array<int64_t, MAX_RANK> index{};
    int64_t rest = begin;
    for (size_t axis = rank - 1; axis-- > 0;) {
        index[axis] = rest % sizes[axis];
        rest /= sizes[axis];
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

}  // namespace

SuperKernel::SuperKernel(const std::string& text)
{
    std::istringstream lines(text);
    std::string line;
    std::getline(lines, line);
    const std::vector<std::string> head = Split(line);
    if (head.size() < 6 || head[0] != "super_kernel" || head[2] != "inputs" || head[4] != "results") {
        throw std::invalid_argument(NAME + "its list begins with '" + line.substr(0, 60) + "'");
    }
    if (head[1] != std::to_string(FORMAT)) {
        throw std::invalid_argument(NAME + "its list has the format " + head[1] + ", and this library reads " +
                                    std::to_string(FORMAT));
    }
    try {
        inputCount_ = ParseCount(head[3], 1U << 16U);
    } catch (const std::invalid_argument& error) {
        throw std::invalid_argument(NAME + "inputs: " + error.what());
    }
    valueCount_ = inputCount_;
    while (std::getline(lines, line)) {
        try {
            steps_.push_back(Parse(line));
        } catch (const std::invalid_argument& error) {
            throw std::invalid_argument(NAME + "step " + std::to_string(steps_.size()) + " (" + line.substr(0, 80) +
                                        "): " + error.what());
        }
        valueCount_ += steps_.back().outputCount;
    }
    for (size_t i = 5; i < head.size(); ++i) {
        try {
            results_.push_back(ParseCount(head[i], valueCount_));
        } catch (const std::invalid_argument& error) {
            throw std::invalid_argument(NAME + "results: " + error.what());
        }
    }
}

std::shared_ptr<const SuperKernel> SuperKernel::Find(const std::string& text)
{
    static std::mutex mutex;
    static auto* known = new std::unordered_map<std::string, std::shared_ptr<const SuperKernel>>;
    const std::lock_guard<std::mutex> lock(mutex);
    std::shared_ptr<const SuperKernel>& found = (*known)[text];
    if (found == nullptr) {
        try {
            found = std::make_shared<const SuperKernel>(text);
        } catch (...) {
            known->erase(text);
            throw;
        }
    }
    return found;
}

SuperKernel::Step SuperKernel::Parse(const std::string& line) const
{
    const size_t semicolon = line.find(';');
    const std::vector<std::string> words = Split(line.substr(0, semicolon));
    const std::vector<std::string> texts =
        semicolon == std::string::npos ? std::vector<std::string>() : Split(line.substr(semicolon + 1));
    if (words.empty()) {
        throw std::invalid_argument("it names no operator");
    }
    Step step;
    step.firstOutput = valueCount_;
    for (size_t i = 1; i < words.size(); ++i) {
        step.inputs.push_back(words[i] == "-" ? NONE : ParseCount(words[i], valueCount_));
    }
    const auto named = std::find_if(VIEWS.begin(), VIEWS.end(), [&](const char* name) { return words[0] == name; });
    step.kind = static_cast<Kind>(named == VIEWS.end() ? 0 : 1 + (named - VIEWS.begin()));
    if (step.kind == Kind::KERNEL) {
        step.op = &FindOp(words[0]);
        ParseKernel(step, texts);
        return step;
    }
    if (step.inputs.size() != 1 || step.inputs[0] == NONE) {
        throw std::invalid_argument("it takes one value");
    }
    if (texts.size() > MAX_RANK || (texts.empty() && step.kind == Kind::TRANSPOSE) ||
        (!texts.empty() && step.kind == Kind::LAST_ROW)) {
        throw std::invalid_argument("it has " + std::to_string(texts.size()) + " dims");
    }
    std::vector<bool> seen(texts.size());
    for (const std::string& text : texts) {
        Dim dim;
        const size_t colon = text.find(':');
        if (step.kind == Kind::TRANSPOSE) {
            dim.number = static_cast<int64_t>(ParseCount(text, texts.size()));
            if (seen[dim.number]) {
                throw std::invalid_argument("it has the axis " + text + " twice");
            }
            seen[dim.number] = true;
        } else if (colon != std::string::npos) {
            dim.value = ParseCount(text.substr(0, colon), valueCount_);
            dim.number = static_cast<int64_t>(ParseCount(text.substr(colon + 1), MAX_RANK));
        } else {
            dim.number = ParseInt(text);
            if (dim.number < UNKNOWN_DIM) {
                throw std::invalid_argument("it has the dim " + text);
            }
        }
        step.dims.push_back(dim);
    }
    const auto isLeft = [](const Dim& dim) { return dim.value == NONE && dim.number == UNKNOWN_DIM; };
    if (std::count_if(step.dims.begin(), step.dims.end(), isLeft) > 1) {
        throw std::invalid_argument("it has several dims of -1");
    }
    return step;
}

void SuperKernel::ParseKernel(Step& step, const std::vector<std::string>& texts) const
{
    const SignatureDef& def = step.op->Def();
    if (step.inputs.size() != def.inputs.size()) {
        throw std::invalid_argument("it takes " + std::to_string(def.inputs.size()) + " inputs, got " +
                                    std::to_string(step.inputs.size()));
    }
    for (size_t i = 0; i < step.inputs.size(); ++i) {
        if (step.inputs[i] == NONE && !def.inputs[i].optional) {
            throw std::invalid_argument(def.inputs[i].name + " is missing");
        }
        // What is changed in place must be an input of the list, and nothing that another step could have.
        if (step.op->Kernel().writes.count(def.inputs[i].name) > 0 && step.inputs[i] != NONE &&
            (step.inputs[i] >= inputCount_ || std::count(step.inputs.begin(), step.inputs.end(), step.inputs[i]) > 1)) {
            throw std::invalid_argument(def.inputs[i].name + ", which it writes, must be an input of the list");
        }
    }
    std::vector<bool> given(def.attributes.size());
    step.attributes.resize(def.attributes.size());
    for (const std::string& text : texts) {
        const size_t equals = text.find('=');
        const std::string name = text.substr(0, equals);
        const auto found = std::find_if(def.attributes.begin(), def.attributes.end(),
                                        [&](const AttributeDef& attribute) { return attribute.name == name; });
        if (found == def.attributes.end() || equals == std::string::npos) {
            throw std::invalid_argument("it has no attribute '" + text + "'");
        }
        const auto place = static_cast<size_t>(found - def.attributes.begin());
        step.attributes[place] = ParseAttribute(*step.op, *found, text.substr(equals + 1));
        given[place] = true;
    }
    const auto missing = std::find(given.begin(), given.end(), false);
    if (missing != given.end()) {
        throw std::invalid_argument("the attribute " + def.attributes[missing - given.begin()].name + " is missing");
    }
    step.outputCount = def.outputs.size();
}

std::string SuperKernel::Place(size_t step) const
{
    const Step& at = steps_[step];
    const std::string name = at.op == nullptr ? VIEWS[static_cast<size_t>(at.kind) - 1] : at.op->Def().name;
    return NAME + "step " + std::to_string(step) + " of " + std::to_string(steps_.size()) + ", " + name + ": ";
}

Shape SuperKernel::ViewShape(const Step& step, const std::vector<Shape>& shapes) const
{
    const Shape& source = shapes[step.inputs[0]];
    Shape made;
    size_t left = NONE;
    bool known = true;
    for (const Dim& dim : step.dims) {
        int64_t size = dim.number;
        if (dim.value != NONE) {
            const Shape& of = shapes[dim.value];
            const bool isRanked = of != Shape{UNKNOWN_RANK};
            if (isRanked && static_cast<size_t>(dim.number) >= of.size()) {
                throw std::invalid_argument("value " + std::to_string(dim.value) + " of the shape " + ToString(of) +
                                            " has no axis " + std::to_string(dim.number));
            }
            size = isRanked ? of[dim.number] : UNKNOWN_DIM;
            known = known && size >= 0;
        } else if (size == UNKNOWN_DIM) {
            left = made.size();
            size = 1;
        }
        made.push_back(size);
    }
    if (!known || !IsKnown(source)) {
        if (left != NONE) {
            made[left] = UNKNOWN_DIM;
        }
        return made;
    }
    const int64_t count = CheckedSize(source);
    int64_t size = CheckedSize(made);
    if (left != NONE && size > 0 && count % size == 0) {
        made[left] = count / size;
        size = count;
    }
    if (size != count) {
        throw std::invalid_argument("a tensor of the shape " + ToString(source) + " has not as many elements as " +
                                    ToString(made));
    }
    return made;
}

std::vector<Shape> SuperKernel::ShapesOf(const Step& step, const std::vector<Shape>& shapes) const
{
    if (step.kind == Kind::VIEW) {
        return {ViewShape(step, shapes)};
    }
    if (step.kind == Kind::KERNEL) {
        std::vector<Shape> given;
        for (const size_t value : step.inputs) {
            given.push_back(value == NONE ? Shape{ABSENT} : shapes[value]);
        }
        return step.op->InferShapes(given, step.attributes);
    }
    const Shape& source = shapes[step.inputs[0]];
    const bool isRanked = source != Shape{UNKNOWN_RANK};
    if (step.kind == Kind::LAST_ROW) {
        if (isRanked && (source.empty() || std::find(source.begin(), source.end() - 1, 0) != source.end() - 1)) {
            throw std::invalid_argument("a tensor of the shape " + ToString(source) + " has no rows");
        }
        return {Shape{1, isRanked ? source.back() : UNKNOWN_DIM}};
    }
    if (isRanked && source.size() != step.dims.size()) {
        throw std::invalid_argument("a tensor of the shape " + ToString(source) + " has not " +
                                    std::to_string(step.dims.size()) + " axes");
    }
    Shape made;
    for (const Dim& dim : step.dims) {
        made.push_back(isRanked ? source[dim.number] : UNKNOWN_DIM);
    }
    return {made};
}

std::vector<Shape> SuperKernel::AllShapes(const std::vector<Shape>& inputs) const
{
    if (inputs.size() != inputCount_) {
        throw std::invalid_argument(NAME + "expects " + std::to_string(inputCount_) + " tensors, got " +
                                    std::to_string(inputs.size()));
    }
    std::vector<Shape> shapes = inputs;
    for (size_t i = 0; i < steps_.size(); ++i) {
        try {
            for (Shape& shape : ShapesOf(steps_[i], shapes)) {
                shapes.push_back(std::move(shape));
            }
        } catch (const std::invalid_argument& error) {
            throw std::invalid_argument(Place(i) + error.what());
        }
    }
    return shapes;
}

std::vector<std::string> SuperKernel::AllTypes(const std::vector<std::string>& inputs) const
{
    if (inputs.size() != inputCount_) {
        throw std::invalid_argument(NAME + "expects " + std::to_string(inputCount_) + " tensors, got " +
                                    std::to_string(inputs.size()));
    }
    std::vector<std::string> types = inputs;
    for (size_t i = 0; i < steps_.size(); ++i) {
        const Step& step = steps_[i];
        if (step.kind != Kind::KERNEL) {
            types.push_back(types[step.inputs[0]]);
            continue;
        }
        std::vector<std::string> given;
        for (const size_t value : step.inputs) {
            given.push_back(value == NONE ? "" : types[value]);
        }
        try {
            for (std::string& type : step.op->InferTypes(given)) {
                types.push_back(std::move(type));
            }
        } catch (const TypeError& error) {
            throw TypeError(Place(i) + error.what());
        }
    }
    return types;
}

std::vector<Shape> SuperKernel::InferShapes(const std::vector<Shape>& inputs) const
{
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        const auto found =
            std::find_if(inferred_.begin(), inferred_.end(), [&](const auto& known) { return known.first == inputs; });
        if (found != inferred_.end()) {
            return found->second;
        }
    }
    const std::vector<Shape> shapes = AllShapes(inputs);
    std::vector<Shape> made;
    std::transform(results_.begin(), results_.end(), std::back_inserter(made), [&](size_t i) { return shapes[i]; });
    const std::lock_guard<std::mutex> lock(mutex_);
    inferred_.emplace_front(inputs, made);
    inferred_.resize(std::min(inferred_.size(), MOST_REMEMBERED));
    return made;
}

std::vector<std::string> SuperKernel::InferTypes(const std::vector<std::string>& inputs) const
{
    const std::vector<std::string> types = AllTypes(inputs);
    std::vector<std::string> made;
    std::transform(results_.begin(), results_.end(), std::back_inserter(made), [&](size_t i) { return types[i]; });
    return made;
}

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
    plans_.resize(std::min(plans_.size(), MOST_REMEMBERED));
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
        if (!IsKnown(shapes[value])) {
            throw std::invalid_argument(NAME + "every shape must be known");
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

void SuperKernelPlan::MakeLaunches(const std::vector<TensorDesc>& descs)
{
    using Kind = SuperKernel::Kind;
    for (size_t i = 0; i < kernel_->steps_.size(); ++i) {
        const SuperKernel::Step& step = kernel_->steps_[i];
        if (step.kind == Kind::VIEW || step.kind == Kind::LAST_ROW) {
            continue;
        }
        Launch launch{i, nullptr, {}, {}};
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
        } else {
            std::array<int64_t, MAX_RANK> strides{};
            int64_t stride = 1;
            for (int32_t axis = tensors[0].rank; axis-- > 0; stride *= tensors[0].dims[axis]) {
                strides[axis] = stride;
            }
            Copy& copy = launch.copy;
            copy.itemBytes = SizeOf(tensors[0].dtype);
            for (int32_t axis = 0; axis < tensors[1].rank; ++axis) {  // axes that stay neighbours are one
                const auto from = static_cast<size_t>(step.dims[axis].number);
                const int64_t size = tensors[1].dims[axis];
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
            throw std::invalid_argument(NAME + "result " + std::to_string(i) + " must be " + NameOf(result.dtype) +
                                        " of the shape " + ToString(ShapeOf(result)) + ", got " +
                                        NameOf(given[i].dtype) + " " + ToString(ShapeOf(given[i])));
        }
    }
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
        const Copy& copy = launch.copy;
        int64_t rows = 1;
        std::for_each(copy.sizes.begin(), copy.sizes.end() - 1, [&](int64_t size) { rows *= size; });
        const uint64_t bytes = static_cast<uint64_t>(rows) * copy.sizes.back() * copy.itemBytes;
        if (bytes == 0) {
            continue;
        }
        const auto* source = static_cast<const char*>(tensors[0]);
        auto* target = static_cast<char*>(tensors[1]);
        const auto cores =
            static_cast<int64_t>(std::min<uint64_t>(AscendC::host::GetThreadNum(), bytes / BYTES_A_CORE));
        if (cores < 2) {
            CopyRows(source, target, copy.sizes, copy.strides, copy.itemBytes, 0, rows);
            continue;
        }
        LaunchConfig config;
        config.blockDim = static_cast<uint32_t>(cores);
        AscendC::host::Launch(config, {}, {}, [&](GM_ADDR) {
            const int64_t core = AscendC::GetBlockIdx();
            CopyRows(source, target, copy.sizes, copy.strides, copy.itemBytes, rows * core / cores,
                     rows * (core + 1) / cores);
        });
    }
    for (const Double& copied : doubles_) {
        if (copied.bytes > 0) {
            std::memcpy(params[copied.param], address(places_[copied.value]), copied.bytes);
        }
    }
}

}  // namespace ms_ascend_ops::binding
