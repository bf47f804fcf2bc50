"""Token stores built ahead of training: shards, engines, filters of documents, and stores at URLs."""
