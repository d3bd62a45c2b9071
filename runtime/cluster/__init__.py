"""Cluster of several runtime processes behind one port.

Ray Serve starts the processes, and HAProxy distributes the clients between them.
"""
