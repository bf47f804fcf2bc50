"""What every part of a program needs and that knows nothing of BERT: errors, files, devices, progress, pages."""
