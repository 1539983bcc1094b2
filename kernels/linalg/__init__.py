# SPDX-License-Identifier: Apache-2.0
"""Small dense and tree-sparse linear algebra."""
