"""The engine: requests in, denoising steps, canvas events out. Its files, by what they are about:

- the way in and out: ``options``, ``client`` with its twins ``process`` (to ``worker``, by ``wire``) and ``thread``;
  ``completion``, ``text``, ``shown_tokens``;
- one request: ``sequence``, ``sketch``, ``held_pages``;
- whose turn it is: ``scheduler``, ``waiting``, ``fair_line``, ``urgency``, ``turns``, ``timeouts``, ``relax``,
  ``estimate``;
- keys and values: ``memory``, ``pages``, ``prefix``; whether they fit: ``footprint``, ``cache_size``, ``fit``,
  ``free_memory``; from one life of the engine to the next: ``session_place``, ``prefix_sessions``, ``prefix_file``;
- one step: ``loop``, ``lookahead``, ``batch``, ``visibility``, ``tiled_groups``, ``parts``, ``runner``, ``left_rows``,
  ``commits``, ``logprobs``; what it took: ``step_meter``, ``step_features``,
  ``step_records``, ``step_log``.
"""
