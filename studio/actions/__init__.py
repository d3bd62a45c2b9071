"""Actions of the page as typed functions for Gradio's API and MCP (docs/mcp.md)."""
