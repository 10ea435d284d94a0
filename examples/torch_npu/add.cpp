/*!
 * x + y by the package's kernel, in both ways: torch.ops.example.add with its gradient, and a function of a module.
 */
#include "aclnn_ms_ascend_ops_add.h"
#include "launch.h"

at::Tensor Add(const at::Tensor& x, const at::Tensor& y)
{
    at::Tensor out = at::empty(x.sizes(), x.options());
    Run("aclnnMsAscendOpsAdd", aclnnMsAscendOpsAddGetWorkspaceSize, aclnnMsAscendOpsAdd, x, Described(x), Described(y),
        Described(out));
    return out;
}

class AddWithGradient : public torch::autograd::Function<AddWithGradient> {
public:
    static at::Tensor forward(torch::autograd::AutogradContext*, const at::Tensor& x, const at::Tensor& y)
    {
        const at::AutoDispatchBelowADInplaceOrView below;
        return Add(x, y);
    }
    static torch::autograd::variable_list backward(torch::autograd::AutogradContext*,
                                                   const torch::autograd::variable_list& dout)
    {
        return {dout[0], dout[0]};
    }
};

TORCH_LIBRARY_FRAGMENT(example, library)
{
    library.def("add(Tensor x, Tensor y) -> Tensor");
}
TORCH_LIBRARY_IMPL(example, PrivateUse1, library)
{
    library.impl("add", Add);
}
TORCH_LIBRARY_IMPL(example, AutogradPrivateUse1, library)
{
    library.impl("add", [](const at::Tensor& x, const at::Tensor& y) { return AddWithGradient::apply(x, y); });
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, module)
{
    module.def("add", &Add, "x + y, without a gradient");
}
