"""The paper's analyses: gradients, representations, Adam's updates, trainability.

``residual-analyze`` is their command; the functions are there for notebooks.
"""
