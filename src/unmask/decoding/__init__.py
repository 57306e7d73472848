"""How masks become tokens. Its files, by what they are about:

- the tokens: ``canvas``, ``grid``;
- what to compute: ``windows``, and the denoisers ``full_attention`` (with ``delayed_cache``), ``block_causal``,
  ``sub_block`` and ``renoise``;
- what is proposed: ``propose``, ``random``, ``logprobs``; under constraints ``constrained``, ``filling``;
- what commits: ``rules``, ``pace``; where the answer is known, ``teaching``; what rules remember meanwhile:
  ``recollection``, ``kept``.
"""
