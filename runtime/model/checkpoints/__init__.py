"""Files of a checkpoint: download, inspection, weights, adapters and quantization."""
