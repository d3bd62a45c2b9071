"""Several runtime processes behind one port: Ray Serve places them, HAProxy connects clients to them."""
