"""Runtimes against the network written plainly: time, memory and parity, measured side by side."""
