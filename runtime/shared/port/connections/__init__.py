"""Connections of uvicorn with our own limits, deadlines and error responses."""
