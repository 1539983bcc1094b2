"""Contact laws: γ = P(y) and its regularisation."""
