"""A few prompts for a model that has just been loaded: whether it writes text at all, and text that may be text."""
