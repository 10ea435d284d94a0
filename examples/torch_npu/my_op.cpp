/*!
 * scale * x * x, the operator that `python -m ms_ascend_ops new my_op` writes, and the kernel of its gradient.
 */
#include "aclnn_ms_ascend_ops_my_op.h"
#include "aclnn_ms_ascend_ops_my_op_grad.h"
#include "launch.h"

at::Tensor MyOp(const at::Tensor& x, double scale)
{
    at::Tensor y = at::empty(x.sizes(), x.options());
    Run("aclnnMsAscendOpsMyOp", aclnnMsAscendOpsMyOpGetWorkspaceSize, aclnnMsAscendOpsMyOp, x, Described(x), scale,
        Described(y));
    return y;
}

at::Tensor MyOpGrad(const at::Tensor& dy, const at::Tensor& x, double scale)
{
    at::Tensor dx = at::empty(x.sizes(), x.options());
    Run("aclnnMsAscendOpsMyOpGrad", aclnnMsAscendOpsMyOpGradGetWorkspaceSize, aclnnMsAscendOpsMyOpGrad, x,
        Described(dy), Described(x), scale, Described(dx));
    return dx;
}

class MyOpWithGradient : public torch::autograd::Function<MyOpWithGradient> {
public:
    static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x, double scale)
    {
        context->save_for_backward({x});
        context->saved_data["scale"] = scale;
        const at::AutoDispatchBelowADInplaceOrView below;
        return MyOp(x, scale);
    }
    static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                   const torch::autograd::variable_list& dy)
    {
        const at::Tensor x = context->get_saved_variables()[0];
        return {MyOpGrad(dy[0], x, context->saved_data["scale"].toDouble()), at::Tensor()};
    }
};

TORCH_LIBRARY_FRAGMENT(example, library)
{
    library.def("my_op(Tensor x, float scale=1.0) -> Tensor");
}
TORCH_LIBRARY_IMPL(example, PrivateUse1, library)
{
    library.impl("my_op", MyOp);
}
TORCH_LIBRARY_IMPL(example, AutogradPrivateUse1, library)
{
    library.impl("my_op", [](const at::Tensor& x, double scale) { return MyOpWithGradient::apply(x, scale); });
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, module)
{
    module.def("my_op", &MyOp, "scale * x * x, without a gradient");
    module.def("my_op_grad", &MyOpGrad, "its gradient");
}
