"""The HTTP server: one folder per wire dialect, around one loaded model."""
