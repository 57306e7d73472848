"""What the OpenAI dialects share: request fields, messages, errors, usage, and the event sequence of a stream."""
