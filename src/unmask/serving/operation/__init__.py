"""What operators ask and do: models and their states, logs of engines, and what happened to requests."""
