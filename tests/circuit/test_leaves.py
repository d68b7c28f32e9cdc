"""The leaf layer: whichever way densities are found, they are the same."""

import torch

from socratic.circuit.leaves import LeafLayer
from socratic.families import Bernoulli, Categorical, Family, Gaussian, StudentT

FAMILIES = [Gaussian(), Categorical(13), StudentT(), Bernoulli(), Categorical(7), Gaussian(), Categorical(7)]


def layer_of(families: list[Family]) -> LeafLayer:
    """A layer with a single region of all columns, and 5 leaves."""
    layer = LeafLayer(families, [tuple(range(len(families)))], 5).double()
    layer.reset_parameters(torch.Generator().manual_seed(0))
    return layer


def rows_of(families: list[Family], n_rows: int) -> torch.Tensor:
    """Rows with values of all families, a fifth of them missing."""
    generator = torch.Generator().manual_seed(1)
    columns = [
        torch.randn(n_rows, generator=generator).double()
        if family.n_values is None
        else torch.randint(family.n_values, (n_rows,), generator=generator).double()
        for family in families
    ]
    rows = torch.stack(columns, 1)
    return rows.masked_fill(torch.rand(rows.shape, generator=generator) < 0.2, torch.nan)


def test_categories_are_looked_up_where_no_gradients_are_needed() -> None:
    layer = layer_of(FAMILIES)
    with torch.no_grad():
        lookup = layer.terms().lookup
    assert lookup is not None
    assert lookup.columns.tolist() == [1, 4, 6]
    assert lookup.first.tolist() == [0, 13, 20]
    assert layer.terms().lookup is None


def test_densities_that_are_looked_up_are_those_of_products() -> None:
    for families in (FAMILIES, [Categorical(20)], [Categorical(20), Gaussian()], [Categorical(20), StudentT()]):
        layer = layer_of(families)
        for n_rows in (0, 1, 50):
            x = rows_of(families, n_rows)
            with torch.no_grad():
                found = layer.log_density(x)
            assert found.shape == (1, 5, n_rows)
            torch.testing.assert_close(found, layer.log_density(x), rtol=1e-12, atol=1e-12)


def test_leaves_that_are_marginalised_are_not_looked_up() -> None:
    layer = layer_of(FAMILIES)
    x = rows_of(FAMILIES, 20)
    generator = torch.Generator().manual_seed(2)
    keep = [(torch.rand(group.n_slots, 5, generator=generator) < 0.5).double() for group in layer.leaf_groups()]
    with torch.no_grad():
        found = layer.log_density(x, layer.terms(keep))
    torch.testing.assert_close(found, layer.log_density(x, layer.terms(keep)), rtol=1e-12, atol=1e-12)


def test_known_terms_give_the_same_densities() -> None:
    layer = layer_of(FAMILIES)
    x = rows_of(FAMILIES, 20)
    with torch.no_grad():
        assert torch.equal(layer.log_density(x, layer.terms()), layer.log_density(x))
