"""Reverse-mode gradients of steps by the implicit function theorem."""
