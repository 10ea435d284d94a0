"""Makes the acceptance certificate of an operator: what is measured of it, and by which rules it is accepted.

docs/trust.md says how it is read.

Needs the source tree (references, samples, kernels) and the packages of the extra `[certify]`.
"""
