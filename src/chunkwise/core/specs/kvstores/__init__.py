"""Specs of kvstores, one module per driver."""
