#include "binding/super_kernel.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <iterator>
#include <mutex>
#include <sstream>
#include <stdexcept>
#include <unordered_map>

#include "binding/cast.h"

namespace ms_ascend_ops::binding {
namespace {

constexpr int64_t FORMAT = 1;
constexpr int64_t MOST_BYTES = 1LL << 46;  // of a tensor: no machine has more, and sums of them do not overflow
constexpr size_t MOST_KNOWN = 64;          // lists that nobody uses any more

// These steps are no kernels, as SuperKernel::Kind has them.
constexpr std::array<const char*, 4> VIEWS = {"view", "last_row", "transpose", "cast"};

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
            value.real = ParseReal(text);
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

}  // namespace

bool SuperKernel::IsKnown(const Shape& shape)
{
    return std::all_of(shape.begin(), shape.end(), [](int64_t size) { return size >= 0; });
}

int64_t SuperKernel::CheckedSize(const Shape& shape)
{
    int64_t size = 1;
    for (const int64_t dim : shape) {
        if (__builtin_mul_overflow(size, dim, &size) || size > MOST_BYTES / 8) {
            throw std::invalid_argument("a tensor of the shape " + ToString(shape) + " is too large");
        }
    }
    return size;
}

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
    if (const auto found = known->find(text); found != known->end()) {
        return found->second;
    }
    auto made = std::make_shared<const SuperKernel>(text);
    for (auto one = known->begin(); known->size() >= MOST_KNOWN && one != known->end();) {
        one = one->second.use_count() == 1 ? known->erase(one) : std::next(one);
    }
    known->emplace(text, made);
    return made;
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
    if (step.kind == Kind::CAST) {
        if (texts.size() != 1 || !IsFloat(texts[0])) {
            throw std::invalid_argument("it casts to float16, bfloat16 or float32");
        }
        step.dtype = texts[0];
        return step;
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
        // An input that is changed in place must be one of the list, and no other step may have it.
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
                                        [&](const AttributeDef& attribute) { return attribute.IsCalled(name); });
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
    if (step.kind == Kind::CAST) {
        return {source};
    }
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
            const std::string& source = types[step.inputs[0]];
            if (step.kind == Kind::CAST && !IsFloat(source)) {
                throw TypeError(Place(i) + "it casts floats, got " + source);
            }
            types.push_back(step.kind == Kind::CAST ? step.dtype : source);
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

}  // namespace ms_ascend_ops::binding
