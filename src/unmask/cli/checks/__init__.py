"""What ``unmask doctor`` looks at: ``finding`` is what a check gives, ``packages`` looks at what is installed,
``machine`` at what there is to compute on, ``server`` at what a server would need, ``listener`` at who listens on a
port, and ``variables`` at the environment.
"""
