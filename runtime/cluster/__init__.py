"""Cluster of several runtime processes behind one port. Ray Serve starts them, and HAProxy distributes clients."""
