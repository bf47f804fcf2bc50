"""Command line: one module per command, which parses options, calls one public function and prints the result."""
