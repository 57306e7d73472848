"""What an answer must look like: from a pattern, a schema, choices or a template to an automaton over tokens."""
