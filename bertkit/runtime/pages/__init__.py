"""Pages of one HTML file that load nothing from elsewhere."""
