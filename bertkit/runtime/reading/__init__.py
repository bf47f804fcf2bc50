"""Bytes → text: encodings, compressed files; paths and URLs; the Hub."""
