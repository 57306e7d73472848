"""Which engine serves which model, and the engines themselves: routing, lanes, children, what is in memory."""
