"""Requests answered by a server that speaks OpenAI's API: how they are sent, and how its stream becomes our answers."""
