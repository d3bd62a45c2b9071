"""Connection classes for uvicorn with stricter limits, timeouts and error responses."""
