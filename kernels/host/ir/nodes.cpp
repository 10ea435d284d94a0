#include "ir/nodes.h"

namespace AscendC {
namespace host {

namespace {

NodeKind ByType(ElementType type, NodeKind ofFloat, NodeKind ofHalf, NodeKind ofBFloat16)
{
    return type == ElementType::FLOAT ? ofFloat : (type == ElementType::HALF ? ofHalf : ofBFloat16);
}

}  // namespace

NodeKind LoadNode(ElementType type)
{
    return ByType(type, NodeKind::LOAD_FLOAT, NodeKind::LOAD_HALF, NodeKind::LOAD_BFLOAT16);
}

NodeKind StoreNode(ElementType type)
{
    return ByType(type, NodeKind::STORE_FLOAT, NodeKind::STORE_HALF, NodeKind::STORE_BFLOAT16);
}

NodeKind RoundNode(ElementType type)
{
    return type == ElementType::HALF ? NodeKind::ROUND_HALF : NodeKind::ROUND_BFLOAT16;
}

NodeKind CollectNode(Opcode opcode)
{
    return opcode == Opcode::ADD ? NodeKind::SUM : (opcode == Opcode::MAX ? NodeKind::LARGEST : NodeKind::SMALLEST);
}

NodeKind NodeOf(Opcode opcode)
{
    return static_cast<NodeKind>(static_cast<uint32_t>(NodeKind::ADDS) + static_cast<uint32_t>(opcode) -
                                 static_cast<uint32_t>(Opcode::ADDS));
}

NodeAccess AccessOf(NodeKind node)
{
    switch (node) {
        case NodeKind::LOAD_FLOAT:
        case NodeKind::STORE_FLOAT:
        case NodeKind::AXPY:
            return NodeAccess::FLOAT;
        case NodeKind::LOAD_HALF:
        case NodeKind::STORE_HALF:
            return NodeAccess::HALF;
        case NodeKind::LOAD_BFLOAT16:
        case NodeKind::STORE_BFLOAT16:
        case NodeKind::CAST_BFLOAT16:
            return NodeAccess::BFLOAT16;
        case NodeKind::SUM:
        case NodeKind::LARGEST:
        case NodeKind::SMALLEST:
            return NodeAccess::LANES;
        default:
            break;
    }
    if (node < NodeKind::BINARY) {
        return NodeAccess::NONE;
    }
    switch (OtherOf(node)) {
        case Other::STREAM:
            return NodeAccess::FLOAT;
        case Other::STREAM_HALF:
            return NodeAccess::HALF;
        case Other::STREAM_BFLOAT16:
            return NodeAccess::BFLOAT16;
        case Other::BLOCK:
            return NodeAccess::BLOCK;
        default:
            return NodeAccess::NONE;
    }
}

uint32_t SizeOf(NodeAccess access)
{
    return access == NodeAccess::HALF || access == NodeAccess::BFLOAT16 ? sizeof(uint16_t) : sizeof(float);
}

ElementType TypeOf(NodeAccess access)
{
    return access == NodeAccess::HALF       ? ElementType::HALF
           : access == NodeAccess::BFLOAT16 ? ElementType::BFLOAT16
                                            : ElementType::FLOAT;
}

}  // namespace host
}  // namespace AscendC
