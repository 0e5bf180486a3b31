"""Publish skills over MCP: an extension for servers built on the official SDK, and a server of its own."""
