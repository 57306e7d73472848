"""The engine: requests in, denoising steps, canvas events out."""
