"""Wire APIs. In each folder: wire (schema), parse, encode, stream (pure state machine) and ten-line routes."""
