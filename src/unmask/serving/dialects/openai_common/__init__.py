"""What the OpenAI dialects share: request fields, errors, usage, and the event sequence of a stream."""
