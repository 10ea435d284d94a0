"""Makes the weights of a model smaller.

rounding.py     a matrix in fewer bits, by rounding to the nearest
units.py        the matrices of a network that have one type each
forward.py      a network layer by layer, on windows of a text
scaling.py      factors between layers that make what matters to activations easier to round
divergence.py   how far the predictions of two networks lie apart
policy.py       a type for each unit, within a bound on that
"""
