"""Model families. They differ by data (names, attention rule, logit shift, ids), not by code paths."""
