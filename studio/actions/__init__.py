"""Actions of the page as typed functions for programs: Gradio's API and MCP tools (docs/mcp.md)."""
