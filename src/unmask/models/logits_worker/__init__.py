"""A model whose weights are in other processes, which give nothing but logits. Its files, by what they are about:

- what can be served so: ``served``; the model that the engine steps: ``model``;
- who asks which process: ``pool``, ``seat``, with ``trail`` where a process remembers its last logits;
- one process: ``process``, started by ``bond``; what is said to it: ``protocol``, through files in an ``exchange``.
"""
