"""Training recipe of ``unmask-tiny``, the model that ships inside the wheel."""
