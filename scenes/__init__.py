# SPDX-License-Identifier: Apache-2.0
"""Scenes and problems that tests, benchmarks, examples and papers share: `from scenes.bodies import body_on_plane`.

The package lies beside the engine and is no part of it. It is found from the root of the checkout: there `pytest` puts the
root on the path, and `python -m benchmarks.NAME`, `python -m papers.NAME.figures` and `python -m examples.NAME` do.
"""
