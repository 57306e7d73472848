"""How masks become tokens: the canvas, the denoisers that choose what to compute, the rules that commit."""
