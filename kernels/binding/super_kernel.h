/*!
 * A super kernel is a list of kernels that are launched one behind the other by one call, with their intermediate
 * results in one arena. CANN has the like for parts of a graph that a user marks.
 *
 * The list is text, a line for each step. Values have numbers: first the inputs, then the outputs of the steps, in
 * order.
 *
 *     super_kernel 1 inputs 4 results 7 6    the version of this text; what leaves the super kernel
 *     layer_norm 0 1 2 ; epsilon=1e-05 activation=relu   a kernel with its inputs ("-": absent) and all its attributes
 *     view 4 ; 0:0 0:1 -1 64                 other dims for the same elements: numbers, dims of a value (number:axis),
 *                                            and at most one -1, which is what is left
 *     transpose 6 ; 0 2 1 3                  the axes in another order
 *     last_row 6 ;                           the last of the rows, as a matrix of one row
 *     cast 6 ; float16                       the same numbers in another type of floats
 *
 * It is read once, planned once for each combination of shapes, and comes from a file: whatever the text says, a launch
 * stays within its tensors, or throws. Errors name the step and its operator.
 */
#ifndef MS_ASCEND_OPS_BINDING_SUPER_KERNEL_H
#define MS_ASCEND_OPS_BINDING_SUPER_KERNEL_H

#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "binding/op.h"

namespace ms_ascend_ops::binding {

class SuperKernel {
public:
    // Throws std::invalid_argument.
    explicit SuperKernel(const std::string& text);

    // Returns the one with this text, which is read once while somebody uses it.
    static std::shared_ptr<const SuperKernel> Find(const std::string& text);

    size_t InputCount() const { return inputCount_; }
    size_t ResultCount() const { return results_.size(); }

    // These return the shapes and dtypes of the results, whose dims may be unknown. They throw as those of Signature
    // do.
    std::vector<Shape> InferShapes(const std::vector<Shape>& inputs) const;
    std::vector<std::string> InferTypes(const std::vector<std::string>& inputs) const;

    // Errors begin with it.
    static inline const std::string NAME = "super_kernel: ";
    // A super kernel remembers so many combinations of shapes.
    static constexpr size_t MOST_REMEMBERED = 8;

    static bool IsKnown(const Shape& shape);
    // Returns the product, which has to be a number of elements that memory can hold. It throws std::invalid_argument.
    static int64_t CheckedSize(const Shape& shape);

private:
    friend class SuperKernelPlan;

    enum class Kind { KERNEL, VIEW, LAST_ROW, TRANSPOSE, CAST };
    static constexpr size_t NONE = SIZE_MAX;

    // This is a number, or where `value` is one, the dim `number` of a value.
    struct Dim {
        int64_t number = 0;
        size_t value = NONE;
    };
    struct Step {
        Kind kind = Kind::KERNEL;
        const Op* op = nullptr;
        std::vector<size_t> inputs;  // NONE: absent
        std::vector<AttributeValue> attributes;
        std::vector<Dim> dims;
        std::string dtype;  // of a cast
        size_t firstOutput = 0;
        size_t outputCount = 1;
    };

    Step Parse(const std::string& line) const;
    void ParseKernel(Step& step, const std::vector<std::string>& texts) const;
    std::string Place(size_t step) const;
    Shape ViewShape(const Step& step, const std::vector<Shape>& shapes) const;
    std::vector<Shape> ShapesOf(const Step& step, const std::vector<Shape>& shapes) const;
    std::vector<Shape> AllShapes(const std::vector<Shape>& inputs) const;
    std::vector<std::string> AllTypes(const std::vector<std::string>& inputs) const;

    size_t inputCount_ = 0;
    size_t valueCount_ = 0;
    std::vector<Step> steps_;
    std::vector<size_t> results_;
    // Keeps the shapes that were inferred last: a graph of dynamic shapes asks at every call.
    mutable std::mutex mutex_;
    mutable std::deque<std::pair<std::vector<Shape>, std::vector<Shape>>> inferred_;
};

// Holds a super kernel for tensors of certain dtypes and shapes.
class SuperKernelPlan {
public:
    // Throws TypeError and std::invalid_argument.
    SuperKernelPlan(std::shared_ptr<const SuperKernel> kernel, const std::vector<TensorDesc>& inputs);

    // Checks that the caller's memory fits the results. Throws std::invalid_argument.
    void CheckResults(const TensorDesc* given) const;
    // Returns true if the plan was made for these inputs.
    bool Fits(const std::vector<TensorDesc>& inputs) const;

    // Runs the plan on `params`: inputs, then results.
    void Run(void* const* params) const;

private:
    static constexpr size_t ARENA = SIZE_MAX;
    static constexpr size_t ABSENT_INPUT = SIZE_MAX - 1;
    // A value lies so many bytes behind the beginning of a param or of the arena.
    struct Place {
        size_t base = ARENA;
        uint64_t offset = 0;
    };
    struct Copy {
        std::vector<int64_t> sizes;    // of the result
        std::vector<int64_t> strides;  // of the source, in elements
        uint32_t itemBytes = 0;
    };
    struct Cast {
        DataType from, to;
        int64_t count;
    };
    struct Launch {
        size_t step;
        std::unique_ptr<PreparedLaunch> kernel;  // null: a cast, or a copy
        std::optional<Cast> cast;
        Copy copy;
        std::vector<Place> places;
    };

    static Copy CopyOf(const SuperKernel::Step& step, const TensorDesc& source, const TensorDesc& result);
    static void RunCopy(const Copy& copy, const void* source, void* target);
    static void RunCast(const Cast& cast, const void* source, void* target);
    void MakePlaces(const std::vector<TensorDesc>& descs);
    void MakeLaunches(const std::vector<TensorDesc>& descs);

    std::shared_ptr<const SuperKernel> kernel_;
    std::vector<TensorDesc> inputs_;
    std::vector<TensorDesc> results_;
    std::vector<Place> places_;  // of every value
    std::vector<Launch> launches_;
    struct Double {
        size_t param;
        size_t value;
        uint64_t bytes;
    };
    std::vector<Double> doubles_;  // results whose memory another value has, from which they are copied
    uint64_t arenaBytes_ = 0;
};

// Keeps the plans of a super kernel for the last shapes, for any thread.
class SuperKernelPlans {
public:
    explicit SuperKernelPlans(std::shared_ptr<const SuperKernel> kernel) : kernel_(std::move(kernel)) {}

    const SuperKernel& Kernel() const { return *kernel_; }
    // Throws as SuperKernelPlan does.
    std::shared_ptr<const SuperKernelPlan> Find(const std::vector<TensorDesc>& inputs);

private:
    std::shared_ptr<const SuperKernel> kernel_;
    std::mutex mutex_;
    std::deque<std::shared_ptr<const SuperKernelPlan>> plans_;
};

}  // namespace ms_ascend_ops::binding

#endif  // MS_ASCEND_OPS_BINDING_SUPER_KERNEL_H
