"""Wire APIs. A folder each: wire (schema), parse, encode, stream (pure state machine), and short routes."""
