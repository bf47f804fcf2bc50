"""Command line: the commands of the core, each of which parses options, calls one public function and prints the
result; and what the commands of features share with them: options, groups, printing."""
