"""Typed Python functions that offer the page's features to programs (docs/mcp.md).

They are called actions. Programs call them through Gradio's API or as MCP tools.
"""
