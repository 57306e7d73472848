"""Signs, in a text alone, that what wrote it does not work: each in a file of its own, in time linear in the text."""
