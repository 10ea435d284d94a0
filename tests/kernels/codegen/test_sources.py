"""What a kernel entry is made of, as the CANN package's generator reads it from the sources."""

import pytest
from codegen.ascend.sources import code_of

KERNEL = """
#define NOISE(NAME) \\
    SyncAll();

constexpr uint32_t SMALL = 2;

struct Shared {
    int size;
};

// Forward is not Backward: SyncAll() is named here only.
template <typename T>
class Forward {
public:
    __aicore__ inline void Process() { Load(Shared{}); }
};

template <typename T>
class Backward : public Base<T> {
    __aicore__ inline void Process()
    {
        Meet();
    }
};

}  // namespace
"""
OTHER = """
namespace ms_ascend_ops {

__aicore__ inline void Load(const Shared& shared)
{
    DataCopyPad(shared);
}

template <typename T>
__aicore__ inline void Meet()
{
    AscendC::SyncAll();
}

__aicore__ inline void LongKernel(GM_ADDR x,
                                  const Tiling& tiling)
{
    Forward<half> kernel;
}

__aicore__ inline void LongGradKernel(GM_ADDR x)
{
    Backward<half> kernel;
}
"""


def test_only_what_the_entry_names_counts():
    forward, gradient = (code_of(name, [KERNEL, OTHER]) for name in ("LongKernel", "LongGradKernel"))
    assert "DataCopyPad(" in forward
    assert "struct Shared" in forward
    assert "SyncAll(" not in forward
    assert "AscendC::SyncAll(" in gradient
    assert "DataCopyPad(" not in gradient


def test_functions_of_a_name_count_as_one():
    overload = "__aicore__ inline void Load(int)\n{\n    AscendC::SyncAll();\n}\n"
    assert "SyncAll(" in code_of("LongKernel", [KERNEL, OTHER, overload])


def test_an_entry_that_is_not_there_is_named():
    with pytest.raises(ValueError, match="there is no function ShortKernel"):
        code_of("ShortKernel", [KERNEL, OTHER])
