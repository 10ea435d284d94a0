"""What holds for every picture that this library draws."""

from contextlib import contextmanager
from itertools import combinations

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.legend import Legend
from matplotlib.patches import Rectangle

_OVERLAP = 2.0  # pixels: a text's box is larger than its letters


@contextmanager
def drawn():
    """The figures that are saved within the block."""
    figures, save = [], Figure.savefig

    def kept(figure, *args, **kwargs):
        save(figure, *args, **kwargs)
        figures.append(figure)

    Figure.savefig = kept
    try:
        yield figures
    finally:
        Figure.savefig = save


def check_picture(figure):
    """There is a title. Nothing is empty, cut off or written over something else."""
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    renderer = canvas.get_renderer()
    whole = figure.get_window_extent(renderer).padded(1)
    legends = figure.findobj(Legend)
    assert figure.get_suptitle() or any(axes.get_title() for axes in figure.axes), "no title"
    texts = [text for text in _texts(figure, legends) if text.get_visible() and text.get_text().strip()]
    boxes = [(text, text.get_window_extent(renderer)) for text in texts]
    for text, box in boxes:
        assert whole.contains(*box.min), f"{text.get_text()!r} is cut off"
        assert whole.contains(*box.max), f"{text.get_text()!r} is cut off"
    upright = [(text, box) for text, box in boxes if not text.get_rotation() % 90]  # of others the box is too large
    for (one, a), (other, b) in combinations(upright, 2):
        shared = min(min(a.xmax, b.xmax) - max(a.xmin, b.xmin), min(a.ymax, b.ymax) - max(a.ymin, b.ymin))
        assert shared <= _OVERLAP, f"{one.get_text()!r} and {other.get_text()!r} overlap"
    for axes in figure.axes:
        _check_axes(axes, [legend.get_window_extent(renderer) for legend in legends], renderer)


def _texts(figure, legends):
    yield from figure.findobj(lambda artist: artist in (figure._suptitle, figure._supxlabel, figure._supylabel))
    for legend in legends:
        yield from legend.get_texts()
    for axes in figure.axes:
        yield from (axes.title, axes.xaxis.label, axes.yaxis.label, *axes.texts)
        for axis in (axes.xaxis, axes.yaxis):
            low, high = sorted(axis.get_view_interval())
            yield from (tick.label1 for tick in axis.get_major_ticks() if low <= tick.get_loc() <= high)


def _check_axes(axes, legends, renderer):
    assert axes.has_data(), "empty axes"
    assert axes.get_xlabel() or axes.get_ylabel() or axes.get_title(), "axes without a word"
    frame = axes.get_window_extent(renderer)
    for patch in axes.patches:
        box = patch.get_window_extent(renderer)
        if isinstance(patch, Rectangle) and box.width and box.height:
            assert frame.padded(1).contains(*box.min), "a bar leaves its axes"
            assert frame.padded(1).contains(*box.max), "a bar leaves its axes"
            assert not any(box.overlaps(legend) for legend in legends), "a legend covers a bar"
    for text in axes.texts:
        box = text.get_window_extent(renderer)
        crosses = box.xmin < frame.xmax - _OVERLAP and box.xmax > frame.xmax + _OVERLAP
        assert not crosses, f"{text.get_text()!r} crosses the frame"
