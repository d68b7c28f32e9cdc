"""Pictures: what their text says, that it is the truth, and that dot can draw it."""

from __future__ import annotations

import contextlib
import io
import math
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
import torch

import socratic
from socratic import Graph, Leaf, Product, Sum
from socratic.drawing.values import caption, moments_of
from socratic.families import Bernoulli, Gaussian
from tests.inference.graph.random_graphs import random_roots, random_rows
from tests.oracles import enumerate_masks
from tests.test_docs import python_blocks

ROOT = Path(__file__).resolve().parents[2]
needs_dot = pytest.mark.skipif(
    shutil.which("dot") is None, reason="the program dot is missing: install Graphviz, e.g. apt-get install graphviz"
)
NODE = re.compile(r'^\tn(?P<number>\d+) \[label="(?P<label>.*?)" (?P<grey>color=.*?)?fillcolor', re.MULTILINE)
EDGE = re.compile(r"^\tn(?P<parent>\d+) -> n(?P<child>\d+)(?: \[(?P<style>.*)\])?$", re.MULTILINE)


def small(dtype: torch.dtype = torch.float64) -> Graph:
    """A product and a sum that share a sum."""
    shared = Sum((Leaf(0, Gaussian.of(20.0, 4.0)), Leaf(0, Gaussian.of(26.0, 9.0))), (0.7, 0.3))
    dry, wet = Leaf(1, Bernoulli.of(0.1)), Leaf(1, Bernoulli.of(0.8))
    return Graph(
        (Sum((Product((shared, dry)), Product((shared, wet))), (0.8, 0.2)), Product((shared, wet))), dtype=dtype
    )


def labels(source: str) -> dict[int, list[str]]:
    """The lines of each node."""
    return {int(match["number"]): match["label"].split("\\n") for match in NODE.finditer(source)}


def svg_texts(svg: str) -> list[str]:
    return [element.text or "" for element in ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")]


def test_the_text_names_scopes_weights_and_distributions() -> None:
    graph = small()
    source = socratic.draw(graph).source
    lines = labels(source)
    assert len(lines) == graph.n_nodes == 9
    assert lines[0] == ["x0", "gaussian: mean 20, deviation 2"]
    assert lines[2] == ["x1", "bernoulli: 0.1"]
    assert lines[4] == ["+", "{x0}"]
    first, second = graph.root_numbers.tolist()
    assert lines[first] == ["class 0", "+", "{x0, x1}"]
    assert lines[second] == ["class 1", "\N{MULTIPLICATION SIGN}", "{x0, x1}"]
    edges = re.findall(r"^\tn(\d+) -> n(\d+)(?: \[label=(.*)\])?$", source, re.MULTILINE)
    assert ("4", "0", "0.7") in edges
    assert ("4", "1", "0.3") in edges
    assert len(edges) == len(graph.child_numbers)
    assert sum(bool(weight) for *_, weight in edges) == graph.n_edges


@pytest.mark.parametrize(("masks", "root_dropout"), [("edge", False), ("unit", True)])
@pytest.mark.parametrize("shape", ["tree", "structured", "crossing"])
def test_values_are_those_of_enumeration(shape: str, masks: str, root_dropout: bool) -> None:
    graph = Graph(random_roots(shape, 12), dtype=torch.float64)
    x = random_rows(1, graph.n_features, 3)
    settings = {"dropout": 0.3, "masks": masks, "root_dropout": root_dropout}
    truth = enumerate_masks(graph, x[0].tolist(), **settings, outputs=graph.nodes)
    lines = labels(socratic.draw(graph, x, **settings).source)
    deviation = np.sqrt(np.diag(truth.covariance).clip(0.0))
    assert len(lines) == graph.n_nodes
    for number, shown in lines.items():
        mean, _, spread = shown[-1].partition(" ± ")
        assert float(mean) == pytest.approx(truth.mean[number], rel=6e-3)
        assert float(spread or "0") == pytest.approx(deviation[number], rel=6e-3, abs=1e-9)


@pytest.mark.parametrize(("masks", "root_dropout"), [("edge", False), ("unit", True)])
@pytest.mark.parametrize("shape", ["tree", "structured", "crossing"])
def test_a_sampled_mask_is_that_of_a_pass(shape: str, masks: str, root_dropout: bool) -> None:
    graph = Graph(random_roots(shape, 12), dtype=torch.float64)
    x = random_rows(1, graph.n_features, 3)
    for seed in range(5):
        settings = {"dropout": 0.4, "masks": masks, "root_dropout": root_dropout, "seed": seed}
        source = socratic.draw(graph, x, **settings).source
        (passed,) = socratic.sample_log_likelihoods(graph, x, n_passes=1, **settings)
        edges = [(int(match["parent"]), int(match["child"]), match["style"] or "") for match in EDGE.finditer(source)]
        children = {number: [edge for edge in edges if edge[0] == number] for number in range(graph.n_nodes)}
        values: list[float] = []
        for number, node in enumerate(graph.nodes):  # by hand, without what is dashed; children come first
            kept = [0.0 if "dashed" in style else values[child] for _, child, style in children[number]]
            if isinstance(node, Leaf):
                values.append(math.exp(node.log_density(x[0].tolist())))
            else:
                values.append(math.prod(kept) if isinstance(node, Product) else float(np.dot(node.weights, kept)))
        assert [float(lines[-1]) for lines in labels(source).values()] == pytest.approx(values, rel=6e-3)
        used, waiting = set(), graph.root_numbers.tolist()
        while waiting:
            used.add(number := waiting.pop())
            waiting += [child for _, child, style in children[number] if "dashed" not in style]
        grey = {int(match["number"]) for match in NODE.finditer(source) if match["grey"]}
        assert grey == set(range(graph.n_nodes)) - used
        assert [values[number] for number in graph.root_numbers] == pytest.approx(passed[0].exp().tolist())


def test_a_mask_that_drops_everything() -> None:
    lines = labels(socratic.draw(small(), [21.0, 0.0], dropout=0.999, root_dropout=True, seed=0).source)
    assert [lines[number][-1] for number in small().root_numbers.tolist()] == ["0", "0"]


def test_without_dropout_there_are_values_alone() -> None:
    source = socratic.draw(small(), [21.0, 0.0], dropout=0.0).source
    assert "values without dropout" in source
    assert "±" not in source


def test_bounds_are_a_range() -> None:
    graph = socratic.rat_spn(4, 1, n_sums=5, n_leaves=5, depth=2, n_repetitions=1).double().to_graph()
    moments = socratic.node_moments(graph, torch.zeros(1, 4), budget=0)
    assert moments.method == "bounds"
    root = int(graph.root_numbers[0])
    shown = moments_of(moments, root)
    lower, upper = (
        math.exp(moments.log_mean[0, root].item()) * math.sqrt(side[0, root].item()) for side in moments.variance_bounds
    )
    assert shown.endswith(f"± ({lower:.3g} to {upper:.3g})")
    assert caption(moments)[-1] == "bounds: bounds of the deviation"


def test_a_row_is_named_and_may_miss_values() -> None:
    picture = socratic.draw(small(), torch.tensor([float("nan"), 1.0]), dropout=0.1)
    assert "x0 missing" in picture.source
    assert "x1 = 1" in picture.source
    assert "dropout 0.1, edge masks" in picture.source
    assert "structured: exact" in picture.source


def test_tiny_and_impossible_values() -> None:
    graph = Graph(
        Sum((Leaf(0, Gaussian.of(0.0, 1.0)), Leaf(0, Gaussian.of(0.0, 2.0))), (0.5, 0.5)), dtype=torch.float64
    )
    lines = labels(socratic.draw(graph, [500.0]).source)
    assert [lines[number][-1].partition("e")[2] for number in (0, 1)] == ["-54288", "-27144"]
    lines = labels(socratic.draw(graph, [1e6]).source)
    assert [lines[number][-1] for number in (0, 1)] == ["exp(-5e+11)", "exp(-2.5e+11)"]
    never = Graph(Leaf(0, Bernoulli.of(0.0)))
    assert labels(socratic.draw(never, [1.0]).source)[0][-1] == "0"


def test_equal_arguments_give_equal_text() -> None:
    assert socratic.draw(small(), [21.0, 0.0]).source == socratic.draw(small(), [21.0, 0.0]).source


def test_a_circuit_is_drawn_as_its_graph() -> None:
    circuit = socratic.rat_spn(4, 2, n_sums=2, n_leaves=2, depth=2, n_repetitions=1)
    assert socratic.draw(circuit).source == socratic.draw(circuit.to_graph()).source


@needs_dot
def test_dot_draws_every_node() -> None:
    graph = small()
    svg = socratic.draw(graph, [21.0, 0.0])._repr_svg_()
    assert svg is not None
    titles = [element.text for element in ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}title")]
    assert {f"n{number}" for number in range(graph.n_nodes)} <= set(titles)


@needs_dot
def test_names_stand_for_themselves() -> None:
    features = [r'"quoted" \N \l \\', "<b>&lt;a & b</b>"]
    classes = ["<table>", "two\nlines\x00; } digraph {"]
    picture = socratic.draw(small(), feature_names=features, class_names=classes)
    texts = {text.replace("\xa0", " ") for text in svg_texts(picture.svg())}
    assert {*features, "<table>", "two lines ; } digraph {"} <= texts


@needs_dot
@pytest.mark.parametrize(("name", "start"), [("a.png", b"\x89PNG"), ("a.pdf", b"%PDF"), ("a.SVG", b"<?xml")])
def test_files(name: str, start: bytes, tmp_path: Path) -> None:
    socratic.draw(small()).save(tmp_path / name)
    assert (tmp_path / name).read_bytes().startswith(start)


def test_the_text_is_a_file_too(tmp_path: Path) -> None:
    picture = socratic.draw(small(), [21.0, 0.0])
    picture.save(tmp_path / "a.dot")
    assert (tmp_path / "a.dot").read_text(encoding="utf-8") == picture.source
    assert "lines of DOT" in repr(picture)
    with pytest.raises(ValueError, match=r"the ending of path must be one of '.svg'.*got '.jpeg'"):
        picture.save(tmp_path / "a.jpeg")


def test_without_dot_the_remedy_is_named(tmp_path: Path) -> None:
    code = """
import sys, warnings
import socratic
from socratic.families import Gaussian
picture = socratic.draw(socratic.Graph(socratic.Leaf(0, Gaussian.of(0.0, 1.0))))
picture.save(sys.argv[1] + "/a.dot")
try:
    picture.save(sys.argv[1] + "/a.svg")
except RuntimeError as error:
    print(error)
with warnings.catch_warnings(record=True) as found:
    warnings.simplefilter("always")
    print(picture._repr_svg_(), len(found))
"""
    environment = {**os.environ, "PATH": str(tmp_path)}
    command = [sys.executable, "-c", code, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    assert "apt-get install graphviz" in done.stdout
    assert "brew install graphviz" in done.stdout
    assert "picture.source" in done.stdout
    assert done.stdout.splitlines()[-1] == "None 1"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.dot"]


def test_without_the_package_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "graphviz", None)
    with pytest.raises(ImportError, match=r'pip install "socratic-circuits\[draw\]"'):
        socratic.draw(small())


def test_large_circuits_are_referred_to_the_summary() -> None:
    with pytest.raises(ValueError, match=r"at most 200 nodes, and the circuit has 33,003; socratic\.summary"):
        socratic.draw(socratic.rat_spn(16, 3))
    with pytest.raises(ValueError, match="at most 200 nodes"):
        socratic.draw(Graph(Product(tuple(Leaf(v, Gaussian.of(0.0, 1.0)) for v in range(200)))))


def test_arguments_are_checked() -> None:
    with pytest.raises(ValueError, match="seed draws one pass, which needs a row; pass x"):
        socratic.draw(small(), seed=0)
    with pytest.raises(ValueError, match="seed must be"):
        socratic.draw(small(), [21.0, 0.0], seed=-1)
    with pytest.raises(ValueError, match=r"x must be one row.*got \(2, 2\)"):
        socratic.draw(small(), torch.zeros(2, 2))
    with pytest.raises(ValueError, match="one column for each feature"):
        socratic.draw(small(), [1.0, 2.0, 3.0])
    with pytest.raises(ValueError, match="feature_names must hold 2 names; got 1"):
        socratic.draw(small(), feature_names=["a"])
    with pytest.raises(ValueError, match="class_names must hold 2 names; got 3"):
        socratic.draw(small(), class_names=["a", "b", "c"])


@needs_dot
def test_the_page_shows_what_its_code_draws(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    page = (ROOT / "docs" / "drawing.md").read_text(encoding="utf-8")
    output = io.StringIO()
    namespace: dict[str, object] = {}
    with contextlib.redirect_stdout(output):
        for block in python_blocks(page):
            exec(block.code, namespace)
    assert f"```text\n{output.getvalue()}```" in page
    drawn = (tmp_path / "drawing.svg").read_text(encoding="utf-8")
    stored = (ROOT / "docs" / "images" / "drawing.svg").read_text(encoding="utf-8")
    assert sorted(svg_texts(drawn)) == sorted(svg_texts(stored))


@pytest.mark.parametrize("options", [{"masks": "foo"}, {"dropout": 7}])
def test_settings_are_checked_without_a_row(options: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=f"{next(iter(options))} must be"):
        socratic.draw(small(), **options)
