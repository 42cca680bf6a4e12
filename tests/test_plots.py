"""Pictures."""

import matplotlib.colors
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from PIL import Image

from residual_fairseq import plots


def draw(path, curves):
    plots.plot_learning_curves(curves, path, title="A title", command="the command --with 'é'")
    return Image.open(path)


def colours_of(picture):
    return {colour for _, colour in picture.convert("RGB").getcolors(1 << 20)}


def rgb(colour):
    return tuple(round(255 * part) for part in matplotlib.colors.to_rgb(colour))


def test_each_training_has_a_line_and_the_command_is_kept(tmp_path):
    curves = {"post 6+6": {10: 8.0, 20: 4.0}, "pre 6+6": {20: 5.0, 10: 9.0}, "failed": {}}
    picture = draw(tmp_path / "curves.png", curves)
    assert picture.text["Command"] == "the command --with 'é'"
    assert picture.text["Title"] == "A title"
    colours = colours_of(picture)
    assert rgb(plots.COLOURS[0]) in colours and rgb(plots.COLOURS[1]) in colours
    assert rgb(plots.COLOURS[2]) not in colours
    assert [path.name for path in tmp_path.iterdir()] == ["curves.png"]


@pytest.mark.parametrize("panels", range(1, 8))
def test_axes_have_names_and_the_legend_covers_none(panels):
    labels = [f"a long name of a connection {i}" for i in range(20)]
    curves = {label: {1: 1.0, 2: 10.0 + i} for i, label in enumerate(labels)}
    made = [plots.Panel("layer", "norm (nats)", curves, f"panel {i}") for i in range(panels)]
    figure = plots.draw(made, "A title")
    FigureCanvasAgg(figure).draw()
    assert len(figure.axes) == panels
    for axes in figure.axes:
        assert axes.get_xlabel() == "layer" and axes.get_ylabel() == "norm (nats)"
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == labels
    covered = legend.get_window_extent()
    assert not any(covered.overlaps(axes.get_window_extent()) for axes in figure.axes)
    assert figure.bbox.containsx(covered.x0) and figure.bbox.containsx(covered.x1)


def test_no_two_lines_of_many_look_the_same(tmp_path):
    looks = {
        (plots.COLOURS[i % len(plots.COLOURS)], plots.MARKERS[i % len(plots.MARKERS)])
        for i in range(63)
    }
    assert len(looks) == 63


def test_nothing_to_draw(tmp_path):
    assert colours_of(draw(tmp_path / "empty.png", {"failed": {}})).isdisjoint(
        map(rgb, plots.COLOURS[:-1])
    )
