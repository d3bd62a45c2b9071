"""Load generator: closed loops or Poisson arrivals, for an engine in this process or over WebSockets."""
