"""Times of the engine's parts, their floors by the device's rates, and the kernels that they are spent in."""
