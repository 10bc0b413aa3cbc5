"""What carries bytes."""
