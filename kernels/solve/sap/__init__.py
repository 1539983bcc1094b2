"""SAP: the convex contact solver."""
