"""Load test of a runtime, with closed loops or Poisson arrivals."""
