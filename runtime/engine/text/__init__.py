"""Text of a request: rules, splitting into segments, and incremental tokenization.

`scheduling/input_processor.py` validates requests.
"""
