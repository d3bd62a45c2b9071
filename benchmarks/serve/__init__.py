"""Load generator: clients in a closed loop or Poisson arrivals, in process or over WebSockets."""
