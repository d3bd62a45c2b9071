"""uvicorn's connections with limits, deadlines and error responses of our own."""
