"""Measuring the engine, and simulating it under loads that nobody wants to wait for."""
