"""Offers what people do on the page to programs, as typed functions: Gradio's API and MCP tools (docs/mcp.md)."""
