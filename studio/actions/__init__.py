"""Actions of the page as typed Python functions for Gradio's API and MCP (docs/mcp.md)."""
