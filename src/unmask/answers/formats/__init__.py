"""What stands between the markers of a tool call, a format a file; each reads it in pieces of any size."""
