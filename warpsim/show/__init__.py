"""Pictures, pages, plots."""
