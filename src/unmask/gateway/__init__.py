"""Engines beside our own: which of them serves a model, and why none does; how they are started, watched and asked.

``lane`` says what an engine can serve, ``lanes`` which of them are known here, ``mainline`` what llama.cpp knows,
``routing`` is the one decision, ``teaching`` words its refusals, ``tracked`` names the work that would change them.

Of a child process: ``plan`` says what to start, ``ports`` where, ``process`` starts it under a ``keeper``,
``readiness`` asks whether it answers, ``child_log`` and ``log_file`` keep what it says, ``telling`` makes an error of
that, and ``child`` holds all of it together. ``run_directory`` cleans up after a gateway that was killed. ``llama_cpp``
plans how llama.cpp is started, be it a program or ``xllamacpp_server``, and ``slot_sessions`` keeps what it has
computed from one life of a model to the next.

``residency`` decides which models are in memory, with ``room`` and ``breaker``; ``supervisor`` brings that to life.
``config`` is the file that says which models there are, and on which terms.

Of engines that users made known: ``engine`` is what is known of one, ``engine_registry`` the file of them, and
``engine_lanes`` what they advertise. ``engine_probe`` finds that out, from the ``linked_files`` of a program and its
``llama_table``; ``advertised`` says which of those names are served, ``hugging_face_engines`` what SGLang and vLLM do.
``engine_packages`` and ``engine_build`` are where engines come from, with ``tool_run``; ``engine_plan`` says how a
lane's are started (``sglang``, ``vllm``), ``engine_trial`` proves that one writes, and ``rescue`` is what happens if
one does not know what it advertised.
"""
