"""Publish, verify and use Agent Skills over MCP."""

__version__ = "0.1.0"

__all__ = ["__version__"]
