"""The gateway: which engine serves a model, and which models are in memory. It knows no HTTP framework and no torch."""
