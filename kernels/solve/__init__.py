"""Contact solvers and the problem they read."""
