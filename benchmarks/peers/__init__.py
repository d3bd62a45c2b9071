"""Speed comparison with other implementations on the same checkpoint and device."""
