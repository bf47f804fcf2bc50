"""The command line: one small file a command that parses, calls one public function and prints. No logic."""
