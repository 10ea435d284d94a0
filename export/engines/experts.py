"""Puts a layer in the place of a loop over the cells of experts, as a part of `optimize`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mindspore as ms
import numpy as np
from mindspore import Parameter, Tensor, nn
from ms_ascend_ops.cells.exchange import exchange
from ms_ascend_ops.cells.expert_blocks import given_back, is_block
from ms_ascend_ops.cells.moe_feed_forward import MoEFeedForward
from ms_ascend_ops.export.graphs.modes import quiet
from ms_ascend_ops.export.graphs.probe import synchronize
from ms_ascend_ops.export.reports.report import Entry

__all__ = ["PATTERN", "Experts", "is_block"]

PATTERN = "mixture of experts"
LEVEL = "O3"


class Experts:
    """Holds the blocks of one network that were exchanged.

    The layer has parameters of its own, in which the weights of all experts lie one behind the other. So gradients are
    compared, and weights given back, part by part.
    """

    def __init__(self, net: nn.Cell) -> None:
        self._net, self._stock = net, list(net.trainable_params())
        self._exchanged: list[tuple[nn.Cell, MoEFeedForward]] = []

    def exchange(self, block: nn.Cell, place: str, level: str, reason: str) -> tuple[Entry, MoEFeedForward | None]:
        """Put the layer in the place of a block, if it computes the same; what the report says, and the layer."""

        def left(reason: str) -> tuple[Entry, None]:
            return Entry(place or "the network", PATTERN, "cell", False, reason), None

        if level != LEVEL:
            return left(f"level {LEVEL} puts MoEFeedForward here, which has parameters of its own")
        if not place:
            return left("it is the network itself: MoEFeedForward.of(network) makes the layer")
        if reason:
            return left(reason)
        try:
            with quiet():
                layer = MoEFeedForward.of(block)
        except ValueError as error:  # what the layer does not do
            return left(str(error))
        except Exception as error:  # operators without a kernel on this machine, say
            synchronize()
            first = next(iter(str(error).strip().splitlines()), type(error).__name__)
            return left(f"it cannot be called here, so not be compared: {first}")
        layer.put_into(self._net, place)
        self._exchanged.append((block, layer))
        experts, text = layer.num_experts, "of all experts in three parameters"
        return Entry(place, PATTERN, "cell", True, f"{experts} experts, best {layer.gating[0]}; weights {text}"), layer

    def undo(self, place: str) -> Callable[[], None]:
        """Return what puts the block that was exchanged last back, with the weights that the layer has by then."""
        block, layer = self._exchanged[-1]

        def back() -> None:
            values = {name: _array(parameter) for name, parameter in _named(layer).items()}
            for parameter, value in given_back(block, values):
                parameter.set_data(Tensor(np.ascontiguousarray(value)).astype(parameter.dtype))
            exchange(self._net, {place: block})
            self._exchanged.remove((block, layer))

        return back

    def gradients_of_stock(self, gradients: list[Any]) -> list[Any]:
        """Return the gradients (pairs of dtype and array) of the present parameters in the form of the
        parameters before.
        """
        if not self._exchanged:
            return gradients
        now, found = list(self._net.trainable_params()), []
        for begin in range(0, len(gradients), len(now)):
            known = {id(p): g for p, g in zip(now, gradients[begin : begin + len(now)], strict=True)}
            for block, layer in self._exchanged:
                own = {name: known[id(p)] for name, p in _named(layer).items() if id(p) in known}
                for parameter, value in given_back(block, {name: array for name, (_, array) in own.items()}):
                    known[id(parameter)] = (own["gate_weight"][0], value)
            # The bias by which experts are picked has a gradient of zeros in a block, and none in the layer.
            found += [known[id(p)] if id(p) in known else ("float32", np.zeros(p.shape)) for p in self._stock]
        return found


def _named(layer: MoEFeedForward) -> dict[str, Parameter]:
    """Return its own parameters, by the names that they have in the layer."""
    names = ("router_weight", "router_bias", "gate_weight", "up_weight", "down_weight")
    return {name: getattr(layer, name) for name in names if getattr(layer, name) is not None}


def _array(parameter: Parameter) -> Any:
    return parameter.astype(ms.float32).asnumpy()
