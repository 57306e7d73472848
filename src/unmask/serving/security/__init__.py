"""Who may use the server and how much of it (keys, scopes, budgets), and from which pages (host and origin)."""
