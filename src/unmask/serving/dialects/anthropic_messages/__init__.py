"""Anthropic messages. A request passes wire, parse, then encode or stream; routes shows the way."""
