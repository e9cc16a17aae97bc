"""Stores that other libraries implement, used directly."""
