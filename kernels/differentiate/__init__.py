"""The step's derivatives: the residual on the tape, and closed forms."""
