"""Trains a language model further: all weights, or small factors beside some of them (LoRA).

data.py: examples of a file; network.py: the decoder with gradients; training.py: steps, on one or several processes;
adapter.py: the factors as a file, and the weights with them added.
"""
