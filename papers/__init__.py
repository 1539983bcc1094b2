# SPDX-License-Identifier: Apache-2.0
"""The papers behind the engine, a folder each: their programs as printed, their figures made again, what a check found.

`python -m papers.sap.figures`, and so on, from the root of the checkout. Nothing in the engine depends on this package.
"""
