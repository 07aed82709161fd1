"""Gymnasium wrappers for remote environments."""
