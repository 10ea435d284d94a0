/*!
 * A plan is a convolution of given sizes, which is made once and run for each call.
 */
#ifndef ASCENDC_HOST_OPERATORS_CONVOLUTION_PLAN_H
#define ASCENDC_HOST_OPERATORS_CONVOLUTION_PLAN_H

#include <cstddef>
#include <memory>
#include <string>

#include "operators/convolution.h"
#include "operators/convolution_operand.h"

namespace AscendC {
namespace host {
namespace convolutions {

class Plan {
public:
    virtual ~Plan() = default;
    // False: the library has failed.
    virtual bool Run(const ConvolutionTensors& tensors, State& state) = 0;

    std::string name;  // empty: the kernel answers
    int shares = 1;
    size_t bytes = 0;  // of the state's memory
};

// Makes the plan of y, or of the gradient of x. Null: the kernel answers.
std::unique_ptr<Plan> MakeImagePlan(const Convolution& c);
// Makes the plan of the gradients of weight and bias. Null: the kernel answers.
std::unique_ptr<Plan> MakeWeightPlan(const Convolution& c);
// Makes the plan of the gradients of a depthwise weight and its bias, by loops of our own.
std::unique_ptr<Plan> MakeDepthwisePlan(const Convolution& c);

}  // namespace convolutions
}  // namespace host
}  // namespace AscendC

#endif  // ASCENDC_HOST_OPERATORS_CONVOLUTION_PLAN_H
