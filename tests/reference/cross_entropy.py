"""Cross entropy with class indices and its gradient in float64, a value a row."""

import numpy as np


def _at(labels, classes):
    """One-hot rows; a label that is no class has none."""
    return labels[..., None] == np.arange(classes)


def forward(logits, labels, ignore_index=-100):
    """The loss and log(sum(exp(logits)))."""
    with np.errstate(all="ignore"):
        largest = np.max(logits, axis=-1)
        log_sum = np.log(np.sum(np.exp(logits - largest[..., None]), axis=-1))
        chosen = np.max(np.where(_at(labels, logits.shape[-1]), logits, -np.inf), axis=-1)
        return np.where(labels == ignore_index, 0.0, log_sum - (chosen - largest)), largest + log_sum


def backward(dloss, logits, labels, ignore_index=-100):
    """Gradient of sum(dloss * loss) with respect to logits."""
    softmax = np.exp(logits - forward(logits, labels, ignore_index)[1][..., None])
    kept = np.where(labels == ignore_index, 0.0, dloss)
    return (softmax - _at(labels, logits.shape[-1])) * kept[..., None]


def backward_terms(dloss, logits, labels, ignore_index=-100):
    """The sums of backward(), of magnitudes."""
    softmax = np.exp(logits - forward(logits, labels, ignore_index)[1][..., None])
    return (softmax + _at(labels, logits.shape[-1])) * np.abs(dloss)[..., None]
