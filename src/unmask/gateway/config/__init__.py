"""The gateway's configuration: one YAML or TOML file that says which models there are, and how they are served.

    config = read_config(Path("unmask.yaml"))       # or Config(), if there is none
    for entry in entries(config, ["unmask-tiny"]):  # the models of the command line first
        ...                                         # entry.name, entry.source, entry.own_engine(), ...

``config`` is what the file says as a whole, ``entry`` one model of it, ``budget`` the memory for all, ``defaults`` what
requests get that say nothing. ``reading`` reads the file, with ``yaml_text`` and ``document``; ``schema`` and
``amounts`` say what may stand in it, ``faults`` words what is wrong with it, ``making`` makes the rest of it.
``entries`` joins the models of the file, of the command line and of ``folder``, and ``names`` sees to it that no two
have the same one. ``appraisal`` says which engine each of them goes to, looking at many ``side_by_side``, and
``effect`` which options say nothing to that engine.
"""
