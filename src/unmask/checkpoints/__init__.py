"""What lies on disk: model directories, weights, tokenizers and chat templates. Nothing here runs foreign code."""
