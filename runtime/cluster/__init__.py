"""Cluster of several runtime processes with one public port.

Ray Serve starts the processes, and HAProxy distributes clients among them.
"""
