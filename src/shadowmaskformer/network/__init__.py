"""The network, its configuration and its weights."""
