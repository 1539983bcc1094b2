"""Small dense and tree-sparse linear algebra."""
