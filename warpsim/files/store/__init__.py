"""Streamed stores."""
