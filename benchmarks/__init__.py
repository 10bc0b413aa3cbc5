"""What agentwire costs, each figure against a reference that is measured in the same run: ``python benchmarks``."""
