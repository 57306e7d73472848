"""What an answer consists of: reasoning, text for the reader, tool calls. Parsed from text as it comes."""
