"""What is measured, and how. Nothing here is a test."""
