"""OpenAI responses. A request passes wire, parse and conversation, its answer the writer; routes shows the way."""
